// SPDX-License-Identifier: BSD-3-Clause
//
// Broken segments: what attach must refuse, and what readers and writers must survive. Random
// bytes come from fixed seeds; a failure prints its seed. The mapping is moved between two
// unmapped pages, so that a read before or behind it is a crash.
#include "segment_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <rte_rcu_qsbr.h>

#include "reader.h"
#include "service_table.h"

#define GUARD_BYTES (1u << 20)
#define SEEDS 3000u
#define HEAP_BYTES (256u << 10)
#define SCRIBBLE_MS 2000

static int try_attach(const struct weir_segment *segment, char *why, size_t why_bytes) {
	struct weir_segment *other = NULL;
	int fd = dup(segment->fd);
	int r = weir_segment_attach(fd, &other, why, why_bytes);

	assert_true(fd >= 0);
	if (r == 0) {
		weir_segment_free(other);
	} else {
		assert_null(other);
		close(fd);
	}
	return r;
}

// --- one wrong field at a time --------------------------------------------------------------

#define REFUSED(field, wrong, expected) \
	do { \
		__typeof__(field) right = (field); \
		char reason[300] = ""; \
		int error; \
		(field) = (__typeof__(field))(wrong); \
		error = try_attach(segment, reason, sizeof(reason)); \
		if (error != (expected)) { \
			fail_msg(#field " = " #wrong ": %d (%s), expected %d", error, reason, \
				expected); \
		} \
		assert_true(strlen(reason) > 20 && strchr(reason, '\n') == NULL); \
		(field) = right; \
		assert_int_equal(try_attach(segment, reason, sizeof(reason)), 0); \
	} while (0)

static void other_magic_and_other_abi_are_said_clearly(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	char why[300];

	(void)state;
	REFUSED(segment->header->magic, 0, -EPROTO);
	REFUSED(segment->header->magic, WEIR_SEGMENT_MAGIC + 1, -EPROTO);
	REFUSED(segment->header->abi, WEIR_SEGMENT_ABI + 1, -EPROTO);
	REFUSED(segment->header->abi, 0, -EPROTO);
	REFUSED(segment->header->header_bytes, 0, -EPROTO);
	REFUSED(segment->header->header_bytes, sizeof(struct weir_segment_header) + 64, -EPROTO);
	segment->header->abi = 7;
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "ABI 7"));
	assert_non_null(strstr(why, "same version"));
	weir_segment_free(segment);
}

static void contradictory_counts_are_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header *h = segment->header;

	(void)state;
	REFUSED(h->epoch, 0, -EBADMSG);
	REFUSED(h->workers, 0, -EBADMSG);
	REFUSED(h->workers, 1, -EBADMSG);
	REFUSED(h->workers, FIXTURE_WORKERS + 1, -EBADMSG);
	REFUSED(h->workers, WEIR_WORKERS_MAX + 1, -EBADMSG);
	REFUSED(h->workers, UINT32_MAX, -EBADMSG);
	REFUSED(h->ports, 0, -EBADMSG);
	REFUSED(h->ports, WEIR_PORTS_MAX + 1, -EBADMSG);
	REFUSED(h->ports, UINT32_MAX, -EBADMSG);
	REFUSED(h->max_services, 0, -EBADMSG);
	REFUSED(h->max_services, WEIR_SERVICES_MAX, -EBADMSG);
	REFUSED(h->max_services, WEIR_SERVICES_MAX + 1, -EBADMSG);
	REFUSED(h->max_services, UINT32_MAX, -EBADMSG);
	REFUSED(h->max_backends, 0, -EBADMSG);
	REFUSED(h->max_backends, WEIR_BACKENDS_MAX, -EBADMSG);
	REFUSED(h->max_backends, WEIR_BACKENDS_MAX + 1, -EBADMSG);
	REFUSED(h->max_backends, UINT32_MAX, -EBADMSG);
	REFUSED(h->bytes, 0, -EBADMSG);
	REFUSED(h->bytes, h->bytes - 4096, -EBADMSG);
	REFUSED(h->bytes, h->bytes + 1, -ENODATA);
	REFUSED(h->bytes, h->bytes + 4096, -ENODATA);
	REFUSED(h->bytes, 1ull << 38, -ENODATA);
	REFUSED(h->bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->qsbr_bytes, 0, -EBADMSG);
	REFUSED(h->qsbr_bytes, h->qsbr_bytes - 64, -EBADMSG);
	REFUSED(h->qsbr_bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->heap_bytes, 0, -EBADMSG);
	REFUSED(h->heap_bytes, 8, -EBADMSG);
	REFUSED(h->heap_bytes, h->heap_bytes + 64, -EBADMSG);
	REFUSED(h->heap_bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->heap_bytes, UINT64_MAX - h->heap_off + 1, -EBADMSG);
	weir_segment_free(segment);
}

static void offsets_out_of_place_are_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header *h = segment->header;
	uint64_t *const offsets[] = {&h->qsbr_off, &h->roots_off, &h->worker_counters_off,
		&h->service_counters_off, &h->backend_counters_off, &h->mailboxes_off,
		&h->samples_off, &h->costs_off, &h->heap_off};

	(void)state;
	for (unsigned int i = 0; i < 9; i++) {
		uint64_t *offset = offsets[i];

		REFUSED(*offset, 0, -EBADMSG);
		REFUSED(*offset, 64, -EBADMSG); // inside the header
		REFUSED(*offset, *offset + 1, -EBADMSG);
		REFUSED(*offset, *offset + 8, -EBADMSG);
		REFUSED(*offset, *offset | 32, -EBADMSG);
		REFUSED(*offset, h->bytes, -EBADMSG);
		REFUSED(*offset, h->bytes - 64 + (i == 8 ? 64 : 0), -EBADMSG);
		REFUSED(*offset, h->bytes + 64, -EBADMSG);
		REFUSED(*offset, UINT64_MAX - 63, -EBADMSG);
		REFUSED(*offset, 1ull << 63, -EBADMSG);
		for (unsigned int j = 0; j < 9; j++) {
			if (i != j) {
				REFUSED(*offset, *offsets[j], -EBADMSG);
				REFUSED(*offset, *offsets[j] + 64, -EBADMSG);
			}
		}
	}
	weir_segment_free(segment);
}

static void names_without_end_are_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_port_info *port = &segment->header->port[1];
	char why[300];

	(void)state;
	memset(port->name, 'x', sizeof(port->name));
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EBADMSG);
	memset(port->name, 0, sizeof(port->name));
	memset(port->kernel_interface, 'x', sizeof(port->kernel_interface));
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EBADMSG);
	memset(port->kernel_interface, 0, sizeof(port->kernel_interface));
	assert_int_equal(try_attach(segment, why, sizeof(why)), 0);
	weir_segment_free(segment);
}

// The library walks as many readers as the variable itself says.
static void quiescent_state_variable_that_does_not_fit_is_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct rte_rcu_qsbr *qsbr = segment->qsbr;
	uint32_t *num_elems = &qsbr->num_elems, *num_threads = &qsbr->num_threads;
	uint32_t *max_threads = &qsbr->max_threads;
	uint64_t *bitmap = (uint64_t *)(void *)(qsbr->qsbr_cnt + FIXTURE_WORKERS); // of readers

	(void)state;
	REFUSED(*max_threads, 0, -EBADMSG);
	REFUSED(*max_threads, FIXTURE_WORKERS + 1, -EBADMSG);
	REFUSED(*max_threads, UINT32_MAX, -EBADMSG);
	REFUSED(*num_threads, 0, -EBADMSG);
	REFUSED(*num_threads, UINT32_MAX, -EBADMSG);
	REFUSED(*num_elems, 0, -EBADMSG);
	REFUSED(*num_elems, UINT32_MAX, -EBADMSG);
	REFUSED(*bitmap, UINT64_MAX, -EBADMSG);
	REFUSED(*bitmap, 0, -EBADMSG);
	REFUSED(qsbr->token, UINT64_MAX, -EBADMSG); // token about to wrap
	REFUSED(qsbr->acked_token, qsbr->token + 1, -EBADMSG); // acknowledged before it was given
	REFUSED(qsbr->qsbr_cnt[0].cnt, qsbr->token + 1, -EBADMSG); // worker 0 ahead of the token
	weir_segment_free(segment);
}

// --- other files ----------------------------------------------------------------------------

static int sealed_copy(const struct weir_segment *segment, uint64_t bytes) {
	int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (bytes > 0) {
		assert_int_equal(pwrite(fd, segment->base, bytes, 0), bytes);
	}
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

static void truncated_segments_are_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	const uint64_t sizes[] = {0, 1, 8, 63, 100, sizeof(struct weir_segment_header) - 1,
		sizeof(struct weir_segment_header), 4096, segment->header->qsbr_off,
		segment->heap_off - 1, segment->heap_off, segment->bytes - 4096,
		segment->bytes - 1};
	struct weir_segment *other = NULL;
	char why[300];

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		int fd = sealed_copy(segment, sizes[i]);

		assert_int_equal(weir_segment_attach(fd, &other, why, sizeof(why)), -ENODATA);
		assert_null(other);
		close(fd);
	}
	int whole = sealed_copy(segment, segment->bytes);

	assert_int_equal(weir_segment_attach(whole, &other, why, sizeof(why)), 0);
	weir_segment_free(other);
	weir_segment_free(segment);
}

// Memory that could be taken away under us, whatever it holds.
static void unsealed_memory_is_refused(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment *other = NULL;
	int fds[3], pipes[2];
	char why[300];

	(void)state;
	fds[0] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[1] = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(pipe(pipes), 0);
	fds[2] = pipes[0];
	close(pipes[1]);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(fds[i] >= 0);
		if (i < 2) {
			assert_int_equal(
				pwrite(fds[i], segment->base, segment->bytes, 0), segment->bytes);
		}
		assert_int_equal(weir_segment_attach(fds[i], &other, why, sizeof(why)), -EPROTO);
		assert_null(other);
		close(fds[i]);
	}
	weir_segment_free(segment);
}

// --- random bytes ---------------------------------------------------------------------------

// Move a segment's mapping between two guards.
static void guard(struct weir_segment *segment) {
	uint8_t *area = mmap(NULL, segment->bytes + 2 * GUARD_BYTES, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *base = area + GUARD_BYTES;
	uint8_t *old = segment->base;

	assert_true(area != MAP_FAILED);
	assert_true(mremap(old, segment->bytes, segment->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
			    base) == base);
#define MOVE(pointer) \
	segment->pointer = \
		(__typeof__(segment->pointer))(void *)(base + ((uint8_t *)segment->pointer - old))
	MOVE(header);
	MOVE(qsbr);
	MOVE(roots);
	MOVE(worker_counters);
	MOVE(service_counters);
	MOVE(backend_counters);
	MOVE(mailboxes);
	MOVE(samples);
	MOVE(costs);
#undef MOVE
	segment->base = base;
}

static void unguard_and_free(struct weir_segment *segment) {
	uint8_t *base = segment->base;
	uint64_t bytes = segment->bytes;

	weir_segment_free(segment);
	munmap(base - GUARD_BYTES, GUARD_BYTES);
	munmap(base + bytes, GUARD_BYTES);
}

static void check_inside(const struct weir_segment *segment, const void *array, uint64_t bytes) {
	const uint8_t *start = array;
	const uint8_t *heap = segment->base + segment->heap_off;

	assert_true(start >= heap && start <= heap + segment->heap_bytes &&
		    bytes <= (uint64_t)(heap + segment->heap_bytes - start));
}

static uint64_t sum(const void *data, uint64_t bytes) {
	const uint8_t *p = data;
	uint64_t total = 0;

	for (uint64_t i = 0; i < bytes; i++) {
		total += p[i];
	}
	return total;
}

// Do all that a worker does with its tables. Returns something, so that nothing is left out.
static uint64_t use(struct weir_reader *reader, uint64_t *seed) {
	const struct weir_segment *segment = reader->segment;
	const struct weir_services_view *services = weir_reader_services(reader);
	const struct weir_backends_view *backends;
	uint64_t total = 0;

	if (services->buckets != NULL) {
		check_inside(segment, services->buckets,
			((uint64_t)services->bucket_mask + 1) * sizeof(struct weir_bind));
		check_inside(segment, services->ranges,
			services->range_count * sizeof(struct weir_bind_range));
	}
	for (unsigned int i = 0; i < 50; i++) {
		uint64_t r = fixture_random(seed);
		uint8_t address[16] = {(uint8_t)(r & 3), (uint8_t)(r >> 2 & 3)};

		total += weir_service_lookup(services, address, r >> 4 & 1 ? 4 : 6,
			r >> 5 & 1 ? IPPROTO_TCP : IPPROTO_UDP, (uint16_t)(r >> 6 & 0x1ff));
		total += weir_service_is_vip(services, address, 4);
	}
	for (uint16_t service = 0; service < segment->max_services; service++) {
		const struct weir_selection_view *view = weir_reader_selection(reader, service);

		const struct weir_policy_table *table = &view->table;

		if (table->count > 0) {
			check_inside(segment, table->slots, table->slot_count * sizeof(uint16_t));
			check_inside(segment, table->rounds,
				table->round_count * sizeof(struct weir_round));
			check_inside(segment, table->candidates,
				table->count * sizeof(struct weir_candidate));
		}
		for (unsigned int i = 0; i < 20; i++) {
			total += weir_selection_choose(view, fixture_random(seed));
		}
	}
	backends = weir_reader_backends(reader);
	assert_true(backends->count <= segment->max_backends);
	if (backends->rows != NULL) {
		check_inside(
			segment, backends->rows, backends->count * sizeof(struct weir_backend_row));
		total += sum(backends->rows, backends->count * sizeof(struct weir_backend_row));
	}
	return total;
}

static struct weir_service_table *random_services(struct weir_writer *writer, uint64_t *seed) {
	struct weir_service_table *table = NULL;
	struct weir_service_bind binds[9];

	for (unsigned int i = 0; i < 9; i++) {
		uint16_t port = (uint16_t)(fixture_random(seed) % 500);

		binds[i] = (struct weir_service_bind){
			.address = {(uint8_t)(i % 3), (uint8_t)(i / 3)},
			.family = 4,
			.protocol = IPPROTO_TCP,
			.port_first = port,
			.port_last = (uint16_t)(port + (i % 2) * 50),
			.service = (uint16_t)i,
		};
	}
	assert_int_equal(weir_service_table_build(writer, binds, 9, *seed, &table), 0);
	return table;
}

static void publish_all(struct weir_writer *writer, uint64_t *seed) {
	weir_writer_publish(
		writer, fixture_root(WEIR_BLOB_IDENTITY), fixture_identity(writer, 5, 50));
	weir_writer_publish(writer, fixture_root(WEIR_BLOB_BACKENDS), fixture_backends(writer, 50));
	for (uint16_t i = 0; i < 5; i++) {
		weir_writer_publish(writer, fixture_selection_root(i),
			i % 2 == 0 ? fixture_selection(writer, i, 1 + i * 3u, 251)
				   : fixture_subsets(writer, i, 1 + i * 3u, i + 1u, 251));
	}
	weir_writer_publish(
		writer, fixture_root(WEIR_BLOB_SERVICES), random_services(writer, seed));
}

// A next control process opens what it finds, and works on.
static void open_and_publish(struct weir_segment *segment, uint64_t *seed) {
	struct weir_writer *writer = NULL;
	struct weir_writer_usage usage;

	assert_int_equal(weir_writer_open(segment, &writer), 0);
	weir_writer_synchronize(writer, 0);
	weir_writer_usage(writer, &usage);
	assert_true(usage.used_bytes <= usage.heap_bytes);
	if (usage.used_bytes + (64u << 10) < usage.heap_bytes) {
		publish_all(writer, seed);
	}
	weir_writer_free(writer);
}

static void random_header_is_refused_or_consistent(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header good = *segment->header;
	unsigned int accepted = 0;

	(void)state;
	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t *words = (uint64_t *)(void *)segment->header;
		uint64_t random = seed;
		struct weir_segment *other = NULL;
		int fd = dup(segment->fd);
		char why[300] = "";
		int r;

		if (seed % 2 == 0) { // everything but what identifies it
			for (size_t i = 2; i < sizeof(good) / 8; i++) {
				words[i] = fixture_random(&random);
			}
		} else { // one to four bytes
			for (uint64_t i = 0; i <= seed / 2 % 4; i++) {
				size_t at = fixture_random(&random) % 168;

				((uint8_t *)words)[at] = (uint8_t)fixture_random(&random);
			}
		}
		r = weir_segment_attach(fd, &other, why, sizeof(why));
		if (r < 0) {
			assert_true(r == -EPROTO || r == -EBADMSG || r == -ENODATA);
			assert_true(why[0] != '\0');
			close(fd);
		} else {
			assert_int_equal(other->bytes, segment->bytes);
			open_and_publish(other, &random);
			weir_segment_free(other);
			accepted++;
		}
		*segment->header = good;
	}
	print_message("%u of %u random headers were harmless\n", accepted, SEEDS);
	weir_segment_free(segment);
}

static void random_roots_and_heap_are_survived(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	uint64_t total = 0, refused = 0;

	(void)state;
	guard(segment);
	for (uint64_t round = 1; round <= SEEDS; round++) {
		uint64_t *roots = (uint64_t *)(void *)segment->roots;
		uint64_t *heap = (uint64_t *)(void *)(segment->base + segment->heap_off);
		uint64_t seed = round;
		struct weir_reader reader;

		for (size_t i = 0; i < sizeof(struct weir_roots) / 8 + FIXTURE_SERVICES; i++) {
			// Half of them somewhere in the heap, or just beyond.
			roots[i] = fixture_random(&seed);
			if (i % 2 == 0) {
				roots[i] = (1 + i) << 32 |
					   (segment->heap_off / 64 +
						   fixture_random(&seed) % (HEAP_BYTES / 64 + 8));
			}
		}
		for (size_t i = 0; i < HEAP_BYTES / 8; i += 1 + fixture_random(&seed) % 16) {
			heap[i] = fixture_random(&seed);
		}
		assert_int_equal(weir_reader_init(&reader, segment,
					 (uint32_t)(fixture_random(&seed) % FIXTURE_WORKERS)),
			0);
		total += use(&reader, &seed);
		refused += reader.refused;
		open_and_publish(segment, &seed);
		total += use(&reader, &seed);
		weir_reader_fini(&reader);
	}
	print_message("%llu tables refused (sum %llu)\n", (unsigned long long)refused,
		(unsigned long long)total);
	assert_true(refused > SEEDS);
	unguard_and_free(segment);
}

// Tables that are right but for a few words: these get past the first checks.
static void nearly_right_tables_are_survived(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	uint64_t total = 0, refused = 0, adopted = 0;

	(void)state;
	guard(segment);
	for (uint64_t round = 1; round <= SEEDS; round++) {
		uint64_t seed = round;
		struct weir_writer *writer = NULL;
		struct weir_reader reader;

		memset(segment->roots, 0,
			sizeof(struct weir_roots) + FIXTURE_SERVICES * sizeof(weir_ref));
		assert_int_equal(weir_writer_open(segment, &writer), 0);
		publish_all(writer, &seed);
		weir_writer_free(writer);
		for (size_t i = 0; i < 3 + FIXTURE_SERVICES; i++) {
			weir_ref *ref = i < 3 ? &segment->roots->services + i
					      : &segment->roots->selection[i - 3];
			uint64_t offset = (*ref & 0xffffffff) * 64;
			uint8_t *blob = segment->base + offset;
			uint64_t r = fixture_random(&seed);

			if (*ref == 0) {
				continue;
			}
			// Sizes and offsets more often than contents.
			if (r & 1) {
				uint32_t *word = (uint32_t *)(void *)(blob + 8) + (r >> 8) % 14;

				switch (r >> 1 & 3) {
				case 0:
					*word = (uint32_t)(r >> 32);
					break;
				case 1:
					*word = 1u << (r >> 32 & 31);
					break;
				case 2:
					*word ^= 1u << (r >> 32 & 31);
					break;
				default:
					*word += (uint32_t)(r >> 32 & 0xff) * 64;
					break;
				}
			}
			if (r & 8) {
				uint64_t at = 64 + (r >> 8) % 4096;

				if (offset + at + 8 <= segment->bytes) {
					memcpy(blob + at, &r, sizeof(r));
				}
			}
		}
		assert_int_equal(weir_reader_init(&reader, segment,
					 (uint32_t)(fixture_random(&seed) % FIXTURE_WORKERS)),
			0);
		total += use(&reader, &seed);
		refused += reader.refused;
		adopted += reader.services.buckets != NULL;
		open_and_publish(segment, &seed);
		weir_reader_fini(&reader);
	}
	print_message("%llu tables refused, service tables adopted %llu times (sum %llu)\n",
		(unsigned long long)refused, (unsigned long long)adopted,
		(unsigned long long)total);
	assert_true(refused > SEEDS && adopted > SEEDS / 4);
	unguard_and_free(segment);
}

// --- a process that writes while we read ------------------------------------------------------

struct scribbler {
	struct weir_segment *segment; // a mapping of its own
	bool stop;
};

static void *scribble(void *arg) {
	struct scribbler *s = arg;
	struct weir_roots *roots = s->segment->roots;
	uint64_t seed = 99;

	while (!__atomic_load_n(&s->stop, __ATOMIC_RELAXED)) {
		uint64_t r = fixture_random(&seed);
		uint32_t root = (uint32_t)(r % 3);
		weir_ref *ref = root < 2 ? &roots->services + root : &roots->selection[0];
		uint64_t offset = (__atomic_load_n(ref, __ATOMIC_RELAXED) & 0xffffffff) * 64;
		volatile uint32_t *words;
		uint32_t at, right;

		if (offset < s->segment->heap_off || offset + 2048 > s->segment->bytes) {
			continue;
		}
		words = (volatile uint32_t *)(void *)(s->segment->base + offset);
		at = (uint32_t)(4 + (r >> 16) % (r & 0x700 ? 12 : 400));
		right = words[at];
		words[at] = r & 0x8000 ? (uint32_t)(r >> 32) : right ^ 1u << (r >> 32 & 31);
		// A new reference each time, so that the reader adopts again and again.
		__atomic_fetch_add(
			(uint32_t *)(void *)(s->segment->base + offset) + 1, 1, __ATOMIC_RELAXED);
		__atomic_fetch_add(ref, 1ull << 32, __ATOMIC_RELEASE);
		words[at] = right;
	}
	return NULL;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void tables_that_change_while_they_are_read_are_survived(void **state) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct scribbler scribbler = {0};
	struct weir_writer *writer = NULL;
	struct weir_reader reader;
	uint64_t seed = 5, total = 0, rounds = 0, adopted = 0, end;
	pthread_t thread;
	char why[300];

	(void)state;
	assert_int_equal(
		weir_segment_attach(dup(segment->fd), &scribbler.segment, why, sizeof(why)), 0);
	guard(segment);
	assert_int_equal(weir_writer_open(scribbler.segment, &writer), 0);
	publish_all(writer, &seed);
	weir_writer_free(writer);
	assert_int_equal(weir_reader_init(&reader, segment, 0), 0);
	assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
	for (end = now_ms() + SCRIBBLE_MS; now_ms() < end; rounds++) {
		total += use(&reader, &seed);
		adopted += reader.services.buckets != NULL;
	}
	__atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("%llu rounds, %llu refusals, service table adopted in %llu (sum %llu)\n",
		(unsigned long long)rounds, (unsigned long long)reader.refused,
		(unsigned long long)adopted, (unsigned long long)total);
	assert_true(reader.refused > 0 && adopted > 0);
	weir_reader_fini(&reader);
	weir_segment_free(scribbler.segment);
	unguard_and_free(segment);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(other_magic_and_other_abi_are_said_clearly),
		cmocka_unit_test(contradictory_counts_are_refused),
		cmocka_unit_test(offsets_out_of_place_are_refused),
		cmocka_unit_test(names_without_end_are_refused),
		cmocka_unit_test(quiescent_state_variable_that_does_not_fit_is_refused),
		cmocka_unit_test(truncated_segments_are_refused),
		cmocka_unit_test(unsealed_memory_is_refused),
		cmocka_unit_test(random_header_is_refused_or_consistent),
		cmocka_unit_test(random_roots_and_heap_are_survived),
		cmocka_unit_test(nearly_right_tables_are_survived),
		cmocka_unit_test(tables_that_change_while_they_are_read_are_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
