// SPDX-License-Identifier: BSD-3-Clause
//
// A broken or malicious control process may write any bytes to the memory of tables, before or
// while readers access it. The tests write random bytes with fixed seeds. They move the mappings
// between two unmapped pages, so that a read before or after a mapping crashes. They also write
// random bytes to the header. The next control process must either refuse the header, or use it
// without errors.
#include "segment_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "moved.h"
#include "service_table.h"

#define GUARD_BYTES (1u << 20)
#define SEEDS 3000u
#define HEAP_BYTES (256u << 10)
// Minimum duration. On a busy machine the test takes longer, until all required events have
// happened.
#define SCRIBBLE_MS 2000
#define SCRIBBLE_MOST_MS 60000

// Move a mapping between two guard pages. Returns its new address.
static uint8_t *guard_memory(uint8_t *old, uint64_t bytes) {
	uint8_t *area = mmap(NULL, bytes + 2 * GUARD_BYTES, PROT_NONE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	uint8_t *base = area + GUARD_BYTES;

	assert_true(area != MAP_FAILED);
	assert_true(mremap(old, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, base) == base);
	return base;
}

static void guard(struct weir_segment *segment) {
	uint8_t *statistics = guard_memory(segment->statistics, segment->statistics_bytes);
	uint8_t *tables = guard_memory(segment->tables, segment->tables_bytes);

	segment_moved(segment, statistics, tables);
}

static void unguard_and_free(struct weir_segment *segment) {
	uint8_t *memory[] = {segment->statistics, segment->tables};
	uint64_t bytes[] = {segment->statistics_bytes, segment->tables_bytes};

	weir_segment_free(segment);
	for (unsigned int i = 0; i < 2; i++) {
		munmap(memory[i] - GUARD_BYTES, GUARD_BYTES);
		munmap(memory[i] + bytes[i], GUARD_BYTES);
	}
}

static void check_inside(const struct weir_segment *segment, const void *array, uint64_t bytes) {
	const uint8_t *start = array;
	const uint8_t *heap = segment->tables + segment->heap_off;

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

struct worker {
	struct weir_reader reader;
	uint64_t total;
	unsigned int rows; // number of loaded rows
};

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct worker *worker = context;

	assert_true(backend < worker->reader.segment->max_backends);
	worker->total += sum(row, sizeof(*row));
	worker->rows++;
	return row->port < 2;
}

static void start(struct worker *worker, struct weir_segment *segment, uint32_t number) {
	*worker = (struct worker){0};
	assert_int_equal(weir_segment_follow(segment), 0);
	assert_int_equal(weir_reader_init(&worker->reader, segment, number, adopt_row, worker), 0);
	weir_reader_online(&worker->reader);
}

static void use_services(struct worker *worker, uint64_t *seed) {
	const struct weir_services_view *services = weir_reader_services(&worker->reader);

	if (services->buckets != NULL) {
		check_inside(worker->reader.segment, services->buckets,
			((uint64_t)services->bucket_mask + 1) * sizeof(struct weir_bind));
		check_inside(worker->reader.segment, services->ranges,
			services->range_count * sizeof(struct weir_bind_range));
	}
	for (unsigned int i = 0; i < 50; i++) {
		uint64_t r = fixture_random(seed);
		uint8_t address[16] = {(uint8_t)(r & 3), (uint8_t)(r >> 2 & 3)};

		worker->total += weir_service_lookup(services, address, r >> 4 & 1 ? 4 : 6,
			r >> 5 & 1 ? IPPROTO_TCP : IPPROTO_UDP, (uint16_t)(r >> 6 & 0x1ff));
		worker->total += weir_service_is_vip(services, address, 4);
	}
}

static void use_selection(struct worker *worker, uint16_t service, uint64_t *seed) {
	const struct weir_selection_view *view = weir_reader_selection(&worker->reader, service);
	const struct weir_policy_table *table = &view->table;

	if (table->count > 0) {
		check_inside(
			worker->reader.segment, table->slots, table->slot_count * sizeof(uint16_t));
		check_inside(worker->reader.segment, table->rounds,
			table->round_count * sizeof(struct weir_round));
		check_inside(worker->reader.segment, table->candidates,
			table->count * sizeof(struct weir_candidate));
	}
	for (unsigned int i = 0; i < 20; i++) {
		worker->total += weir_selection_choose(view, fixture_random(seed));
	}
}

// Runs some iterations of a worker, with all accesses that a worker makes to its tables. Whatever
// the contents of the tables, an iteration does a limited number of steps.
static void use(struct worker *worker, uint64_t *seed) {
	for (unsigned int turn = 0; turn < 4; turn++) {
		unsigned int rows = worker->rows;

		weir_reader_update(&worker->reader);
		assert_true(worker->rows - rows <= WEIR_READER_STEPS);
		use_services(worker, seed);
		for (uint16_t i = 0; i < worker->reader.segment->max_services; i++) {
			use_selection(worker, i, seed);
		}
		weir_reader_quiescent(&worker->reader);
		assert_true(worker->rows - rows <= 2 * WEIR_READER_STEPS);
	}
}

static uint64_t refusals(const struct worker *worker) {
	const struct weir_refusals *r = &worker->reader.refusals;

	return r->services + r->selections + r->rows;
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
	for (uint16_t i = 0; i < 50; i++) {
		struct weir_backend_row row = fixture_row((uint16_t)fixture_random(seed));

		weir_writer_publish_row(writer, i, &row);
	}
	for (uint16_t i = 0; i < 5; i++) {
		weir_writer_publish(writer, fixture_selection_root(i),
			i % 2 == 0 ? fixture_selection(writer, i, 1 + i * 3u, 251)
				   : fixture_subsets(writer, i, 1 + i * 3u, i + 1u, 251));
	}
	weir_writer_publish(
		writer, fixture_root(WEIR_BLOB_SERVICES), random_services(writer, seed));
}

// The next control process opens the tables in this state, and publishes again.
static void open_and_publish(struct weir_segment *control, uint64_t *seed) {
	struct weir_writer *writer = NULL;
	struct weir_writer_usage usage;

	assert_int_equal(weir_writer_open(control, &writer), 0);
	weir_writer_reserve(writer, FIXTURE_SERVICES, FIXTURE_BACKENDS);
	weir_writer_reclaim(writer);
	weir_writer_usage(writer, &usage);
	assert_true(usage.used_bytes <= usage.heap_bytes);
	if (usage.used_bytes + (64u << 10) < usage.heap_bytes) {
		publish_all(writer, seed);
	}
	weir_writer_free(writer);
}

TEST(random_header_is_refused_or_consistent) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header good = *segment->header;
	unsigned int accepted = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		uint64_t *words = (uint64_t *)(void *)segment->header;
		uint64_t random = seed;
		struct weir_segment *other = NULL;
		int statistics_fd = dup(segment->statistics_fd);
		int tables_fd = dup(segment->tables_fd);
		char why[300] = "";
		int r;

		if (seed % 2 == 0) { // everything except the identifying fields
			for (size_t i = 3; i < sizeof(good) / 8; i++) {
				words[i] = fixture_random(&random);
			}
		} else { // change one to four bytes
			for (uint64_t i = 0; i <= seed / 2 % 4; i++) {
				size_t at = fixture_random(&random) %
					    offsetof(struct weir_segment_header, port);

				((uint8_t *)words)[at] = (uint8_t)fixture_random(&random);
			}
		}
		r = weir_segment_attach(statistics_fd, tables_fd, &other, why, sizeof(why));
		if (r < 0) {
			assert_true(r == -EPROTO || r == -EBADMSG || r == -ENODATA);
			assert_true(why[0] != '\0');
			close(statistics_fd);
			close(tables_fd);
		} else {
			assert_int_equal(other->tables_bytes, segment->tables_bytes);
			open_and_publish(other, &random);
			weir_segment_free(other);
			accepted++;
		}
		*segment->header = good;
	}
	print_message("%u of %u random headers were harmless\n", accepted, SEEDS);
	weir_segment_free(segment);
}

// Overwrites words of the tables memory, everywhere except in the heap.
static void scribble_fixed(struct weir_segment *control, uint64_t *seed) {
	uint64_t *words = (uint64_t *)(void *)control->tables;
	uint64_t *roots = (uint64_t *)(void *)control->roots;

	for (size_t i = 0; i < control->heap_off / 8; i += 1 + fixture_random(seed) % 16) {
		words[i] = fixture_random(seed);
	}
	for (size_t i = 0; i < sizeof(struct weir_roots) / 8 + FIXTURE_SERVICES; i += 2) {
		// A reference to any offset in the heap, or just beyond the heap.
		roots[i] = (1 + i) << 32 |
			   (control->heap_off / 64 + fixture_random(seed) % (HEAP_BYTES / 64 + 8));
	}
	for (unsigned int i = 0; i < WEIR_UPDATES; i++) {
		// Random entries with valid or invalid kinds and ids.
		control->updates->update[i] = (uint32_t)(fixture_random(seed) & 0x301ff);
	}
	if (*seed & 1) {
		control->news->updates = fixture_random(seed) % 8192;
	}
}

TEST(random_tables_are_survived) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment *control = fixture_control(segment);
	uint64_t total = 0, refused = 0;

	guard(segment);
	guard(control);
	for (uint64_t round = 1; round <= SEEDS; round++) {
		uint64_t *heap = (uint64_t *)(void *)(control->tables + control->heap_off);
		uint64_t seed = round;
		struct worker worker;

		scribble_fixed(control, &seed);
		for (size_t i = 0; i < HEAP_BYTES / 8; i += 1 + fixture_random(&seed) % 16) {
			heap[i] = fixture_random(&seed);
		}
		start(&worker, segment, (uint32_t)(fixture_random(&seed) % FIXTURE_WORKERS));
		use(&worker, &seed);
		scribble_fixed(control, &seed);
		use(&worker, &seed);
		open_and_publish(control, &seed);
		use(&worker, &seed);
		refused += refusals(&worker);
		total += worker.total;
		weir_reader_offline(&worker.reader);
		weir_reader_fini(&worker.reader);
	}
	print_message("%llu tables refused (sum %llu)\n", (unsigned long long)refused,
		(unsigned long long)total);
	assert_true(refused > SEEDS);
	unguard_and_free(control);
	unguard_and_free(segment);
}

// Change sizes and offsets more often than contents.
static void spoil(struct weir_segment *control, weir_ref ref, uint64_t *seed) {
	uint64_t offset = (ref & 0xffffffff) * 64;
	uint8_t *blob = control->tables + offset;
	uint64_t r = fixture_random(seed);

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

		if (offset + at + 8 <= control->tables_bytes) {
			memcpy(blob + at, &r, sizeof(r));
		}
	}
}

// Tables in which only a few words are invalid pass the first checks.
TEST(nearly_valid_tables_are_survived) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment *control = fixture_control(segment);
	uint64_t total = 0, refused = 0, adopted = 0;

	guard(segment);
	guard(control);
	for (uint64_t round = 1; round <= SEEDS; round++) {
		struct weir_roots *roots = control->roots;
		uint64_t seed = round;
		struct weir_writer *writer = NULL;
		struct worker worker;

		memset(roots, 0, sizeof(*roots) + FIXTURE_SERVICES * sizeof(weir_ref));
		assert_int_equal(weir_writer_open(control, &writer), 0);
		weir_writer_reserve(writer, FIXTURE_SERVICES, FIXTURE_BACKENDS);
		publish_all(writer, &seed);
		weir_writer_free(writer);
		for (size_t i = 0; i < 1 + FIXTURE_SERVICES; i++) {
			weir_ref ref = i == 0 ? roots->services : roots->selection[i - 1];

			if (ref != 0) {
				spoil(control, ref, &seed);
			}
		}
		start(&worker, segment, (uint32_t)(fixture_random(&seed) % FIXTURE_WORKERS));
		use(&worker, &seed);
		adopted += worker.reader.services.buckets != NULL;
		open_and_publish(control, &seed);
		use(&worker, &seed);
		refused += refusals(&worker);
		total += worker.total;
		weir_reader_offline(&worker.reader);
		weir_reader_fini(&worker.reader);
	}
	print_message("%llu tables refused, service tables adopted %llu times (sum %llu)\n",
		(unsigned long long)refused, (unsigned long long)adopted,
		(unsigned long long)total);
	assert_true(refused > SEEDS && adopted > SEEDS / 4);
	unguard_and_free(control);
	unguard_and_free(segment);
}

// --- a process that writes while readers read ------------------------------------------------

struct scribbler {
	struct weir_segment *control;
	uint8_t *tables; // copy of the tables that a writer has published
	bool stop;
};

// Changes a word of a table and restores it, while workers read the table.
static void scribble_table(struct weir_segment *control, uint64_t r) {
	struct weir_roots *roots = control->roots;
	weir_ref *ref = r % 2 == 0 ? &roots->services : &roots->selection[0];
	uint64_t offset = (__atomic_load_n(ref, __ATOMIC_RELAXED) & 0xffffffff) * 64;
	uint32_t change = r % 2 == 0 ? weir_update(WEIR_UPDATE_SERVICES, 0)
				     : weir_update(WEIR_UPDATE_SELECTION, 0);
	uint64_t updates = __atomic_load_n(&control->news->updates, __ATOMIC_RELAXED);
	uint8_t *blob = control->tables + offset;
	volatile uint32_t *words = (volatile uint32_t *)(void *)blob;
	uint32_t at, right;

	if (offset < control->heap_off || offset + 2048 > control->tables_bytes) {
		return;
	}
	at = (uint32_t)(2 + (r >> 16) % (r & 0x700 ? 14 : 400));
	right = words[at];
	words[at] = r & 0x8000 ? (uint32_t)(r >> 32) : right ^ 1u << (r >> 32 & 31);
	for (volatile unsigned int pause = 0; pause < 500; pause++) {
		// a worker may read the changed word in this time
	}
	// Change the reference each time, so that the reader loads the table again.
	__atomic_fetch_add((uint32_t *)(void *)blob, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(ref, 1ull << 32, __ATOMIC_RELEASE);
	__atomic_store_n(
		&control->updates->update[updates % WEIR_UPDATES], change, __ATOMIC_RELAXED);
	__atomic_store_n(&control->news->updates, updates + 1, __ATOMIC_RELEASE);
	if ((r & 0x3f000000) != 0) { // sometimes, keep the changed word
		words[at] = right;
	}
}

// Makes states that no valid writer produces: wrong counts, partly written rows, removed memory.
static void scribble_rest(struct weir_segment *control, uint64_t r) {
	uint64_t *pair = (uint64_t *)(void *)&control->rows[(r >> 8) % FIXTURE_BACKENDS];
	uint64_t page = (r >> 16) % (control->tables_bytes / 4096) * 4096;

	switch (r >> 4 & 3) {
	case 0:
		__atomic_store_n(&control->news->updates, r >> 32, __ATOMIC_RELEASE);
		break;
	case 1:
		__atomic_store_n(&control->news->token, r >> 20, __ATOMIC_RELEASE);
		__atomic_store_n(
			&control->notes->backend_ids, (uint32_t)(r >> 32), __ATOMIC_RELAXED);
		break;
	case 2:
		__atomic_store_n(&pair[(r >> 24) % 24], r, __ATOMIC_RELEASE);
		break;
	default:
		fallocate(control->tables_fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)page, 4096);
		break;
	}
}

static void *scribble(void *arg) {
	struct scribbler *s = arg;
	uint64_t seed = 99;

	for (uint64_t i = 0; !__atomic_load_n(&s->stop, __ATOMIC_RELAXED); i++) {
		uint64_t r = fixture_random(&seed);

		if (i % 1024 == 1023) {
			memcpy(s->control->tables, s->tables, s->control->tables_bytes);
		}
		scribble_table(s->control, r);
		for (volatile unsigned int pause = 0; pause < 3000; pause++) {
			// a worker may load the table in this time
		}
		if (i % 1024 == 900) {
			scribble_rest(s->control, fixture_random(&seed));
		}
	}
	return NULL;
}

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

TEST(tables_that_change_during_reads_are_survived) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct scribbler scribbler = {.control = fixture_control(segment)};
	struct weir_writer *writer = NULL;
	struct worker worker;
	uint64_t seed = 5, rounds = 0, adopted = 0, begun_ms;
	bool all = false;
	pthread_t thread;

	guard(segment);
	guard(scribbler.control);
	assert_int_equal(weir_writer_open(scribbler.control, &writer), 0);
	weir_writer_reserve(writer, FIXTURE_SERVICES, FIXTURE_BACKENDS);
	publish_all(writer, &seed);
	weir_writer_free(writer);
	scribbler.tables = malloc(segment->tables_bytes);
	assert_non_null(scribbler.tables);
	memcpy(scribbler.tables, segment->tables, segment->tables_bytes);
	start(&worker, segment, 0);
	assert_int_equal(pthread_create(&thread, NULL, scribble, &scribbler), 0);
	begun_ms = now_ms();
	for (; now_ms() - begun_ms < (all ? SCRIBBLE_MS : SCRIBBLE_MOST_MS); rounds++) {
		uint64_t generation = worker.reader.services.generation;

		use(&worker, &seed);
		adopted += generation != worker.reader.services.generation;
		all = refusals(&worker) > 0 && adopted > 0 && worker.rows > 0;
	}
	__atomic_store_n(&scribbler.stop, true, __ATOMIC_RELAXED);
	pthread_join(thread, NULL);
	print_message("%llu rounds, %llu refusals, service table adopted %llu times, %u rows "
		      "(sum %llu)\n",
		(unsigned long long)rounds, (unsigned long long)refusals(&worker),
		(unsigned long long)adopted, worker.rows, (unsigned long long)worker.total);
	assert_true(all);
	weir_reader_fini(&worker.reader);
	free(scribbler.tables);
	unguard_and_free(scribbler.control);
	unguard_and_free(segment);
}
