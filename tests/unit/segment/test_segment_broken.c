// SPDX-License-Identifier: BSD-3-Clause
//
// Broken segments, which attach must refuse.
#include "segment_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#define HEAP_BYTES (256u << 10)

static int try_attach(const struct weir_segment *segment, char *why, size_t why_bytes) {
	struct weir_segment *other = NULL;
	int statistics_fd = dup(segment->statistics_fd);
	int tables_fd = dup(segment->tables_fd);
	int r = weir_segment_attach(statistics_fd, tables_fd, &other, why, why_bytes);

	assert_true(statistics_fd >= 0 && tables_fd >= 0);
	if (r == 0) {
		weir_segment_free(other);
	} else {
		assert_null(other);
		close(statistics_fd);
		close(tables_fd);
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

TEST(other_magic_and_other_abi_are_reported_clearly) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	char why[300];

	REFUSED(segment->header->magic, 0, -EPROTO);
	REFUSED(segment->header->magic, WEIR_SEGMENT_MAGIC + 1, -EPROTO);
	REFUSED(segment->header->abi, WEIR_SEGMENT_ABI + 1, -EPROTO);
	REFUSED(segment->header->abi, 0, -EPROTO);
	REFUSED(segment->header->header_bytes, 0, -EPROTO);
	REFUSED(segment->header->header_bytes, sizeof(struct weir_segment_header) + 64, -EPROTO);
	REFUSED(segment->header->fingerprint, 0, -EPROTO);
	REFUSED(segment->header->fingerprint, segment->header->fingerprint ^ 2, -EPROTO);
	segment->header->abi = 99;
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "ABI 99"));
	assert_non_null(strstr(why, "same version"));
	weir_segment_free(segment);
}

TEST(contradictory_counts_are_refused) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header *h = segment->header;

	REFUSED(h->epoch, 0, -EBADMSG);
	REFUSED(h->workers, 0, -EBADMSG);
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
	REFUSED(h->bucketing, WEIR_BUCKETING_COUNT, -EBADMSG);
	REFUSED(h->bucketing, UINT32_MAX, -EBADMSG);
	REFUSED(h->statistics_bytes, 0, -EBADMSG);
	REFUSED(h->statistics_bytes, h->statistics_bytes - 4096, -EBADMSG);
	REFUSED(h->statistics_bytes, h->statistics_bytes + 1, -ENODATA);
	REFUSED(h->statistics_bytes, 1ull << 38, -ENODATA);
	REFUSED(h->statistics_bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->tables_bytes, 0, -EBADMSG);
	REFUSED(h->tables_bytes, h->tables_bytes - 4096, -EBADMSG);
	REFUSED(h->tables_bytes, h->tables_bytes + 1, -ENODATA);
	REFUSED(h->tables_bytes, h->tables_bytes + 4096, -ENODATA);
	REFUSED(h->tables_bytes, 1ull << 38, -ENODATA);
	REFUSED(h->tables_bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->heap_bytes, 0, -EBADMSG);
	REFUSED(h->heap_bytes, 8, -EBADMSG);
	REFUSED(h->heap_bytes, h->heap_bytes + 64, -EBADMSG);
	REFUSED(h->heap_bytes, UINT64_MAX, -EBADMSG);
	REFUSED(h->heap_bytes, UINT64_MAX - h->heap_off + 1, -EBADMSG);
	weir_segment_free(segment);
}

// Checks that wrong values of each of n offsets are refused. bytes: size of the memory area. heap:
// index of the offset of the heap.
static void offsets_out_of_place(const struct weir_segment *segment, uint64_t *const *offsets,
	unsigned int n, unsigned int heap, uint64_t bytes) {
	for (unsigned int i = 0; i < n; i++) {
		uint64_t *offset = offsets[i];

		REFUSED(*offset, *offset + 1, -EBADMSG);
		REFUSED(*offset, *offset + 8, -EBADMSG);
		REFUSED(*offset, *offset | 32, -EBADMSG);
		REFUSED(*offset, bytes, -EBADMSG);
		REFUSED(*offset, bytes - 64 + (i == heap ? 64 : 0), -EBADMSG);
		REFUSED(*offset, bytes + 64, -EBADMSG);
		REFUSED(*offset, UINT64_MAX - 63, -EBADMSG);
		REFUSED(*offset, 1ull << 63, -EBADMSG);
		for (unsigned int j = 0; j < n; j++) {
			if (i != j) {
				REFUSED(*offset, *offsets[j], -EBADMSG);
			}
		}
	}
}

TEST(invalid_offsets_are_refused) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment_header *h = segment->header;
	uint64_t *const statistics[] = {&h->quiescence_off, &h->refusals_off,
		&h->worker_counters_off, &h->worker_boxes_off, &h->port_counters_off,
		&h->bucket_packets_off, &h->bucket_owners_off, &h->steal_counters_off,
		&h->flow_pages_off, &h->capture_rings_off, &h->limit_words_off,
		&h->service_counters_off, &h->backend_counters_off};
	uint64_t *const tables[] = {&h->news_off, &h->roots_off, &h->control_boxes_off,
		&h->capture_control_off, &h->identity_services_off, &h->identity_backends_off,
		&h->service_bases_off, &h->backend_bases_off, &h->rows_off, &h->costs_off,
		&h->heap_off};

	for (unsigned int i = 0; i < 12; i++) {
		REFUSED(*statistics[i], 0, -EBADMSG);
		REFUSED(*statistics[i], 64, -EBADMSG); // an offset inside the header
	}
	offsets_out_of_place(segment, statistics, 12, 12, segment->statistics_bytes);
	offsets_out_of_place(segment, tables, 11, 10, segment->tables_bytes);
	REFUSED(h->rows_off, h->rows_off - 4096, -EBADMSG); // an offset inside the previous region
	REFUSED(h->heap_off, h->heap_off - 4096, -EBADMSG);
	weir_segment_free(segment);
}

TEST(unterminated_names_are_refused) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_port_info *port = &segment->header->port[1];
	char why[300];

	memset(port->name, 'x', sizeof(port->name));
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EBADMSG);
	memset(port->name, 0, sizeof(port->name));
	memset(port->kernel_interface, 'x', sizeof(port->kernel_interface));
	assert_int_equal(try_attach(segment, why, sizeof(why)), -EBADMSG);
	memset(port->kernel_interface, 0, sizeof(port->kernel_interface));
	assert_int_equal(try_attach(segment, why, sizeof(why)), 0);
	weir_segment_free(segment);
}

// --- other files ----------------------------------------------------------------------------

static int sealed_copy(const uint8_t *memory, uint64_t bytes) {
	int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, (off_t)bytes), 0);
	if (bytes > 0) {
		assert_int_equal(pwrite(fd, memory, bytes, 0), bytes);
	}
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

static int attach_copies(
	const struct weir_segment *segment, uint64_t statistics_bytes, uint64_t tables_bytes) {
	int statistics_fd = sealed_copy(segment->statistics, statistics_bytes);
	int tables_fd = sealed_copy(segment->tables, tables_bytes);
	struct weir_segment *other = NULL;
	char why[300] = "";
	int r = weir_segment_attach(statistics_fd, tables_fd, &other, why, sizeof(why));

	if (r == 0) {
		weir_segment_free(other);
		return r;
	}
	assert_null(other);
	assert_true(why[0] != '\0');
	close(statistics_fd);
	close(tables_fd);
	return r;
}

TEST(truncated_segments_are_refused) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	const uint64_t statistics[] = {0, 1, 8, 63, 100, sizeof(struct weir_segment_header) - 1,
		sizeof(struct weir_segment_header), 4096, segment->header->backend_counters_off,
		segment->statistics_bytes - 1};
	const uint64_t tables[] = {0, 1, 4096, segment->heap_off - 1, segment->heap_off,
		segment->tables_bytes - 4096, segment->tables_bytes - 1};

	for (size_t i = 0; i < sizeof(statistics) / sizeof(statistics[0]); i++) {
		assert_int_equal(
			attach_copies(segment, statistics[i], segment->tables_bytes), -ENODATA);
	}
	for (size_t i = 0; i < sizeof(tables) / sizeof(tables[0]); i++) {
		assert_int_equal(
			attach_copies(segment, segment->statistics_bytes, tables[i]), -ENODATA);
	}
	assert_int_equal(
		attach_copies(segment, segment->statistics_bytes, segment->tables_bytes), 0);
	weir_segment_free(segment);
}

// Memory without seals is refused, whatever its contents, because it could be truncated during use.
TEST(unsealed_memory_is_refused) {
	struct weir_segment *segment = fixture_segment(HEAP_BYTES);
	struct weir_segment *other = NULL;
	int fds[3], pipes[2];
	char why[300];

	fds[0] = memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	fds[1] = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	assert_int_equal(pipe(pipes), 0);
	fds[2] = pipes[0];
	close(pipes[1]);
	for (unsigned int i = 0; i < 3; i++) {
		assert_true(fds[i] >= 0);
		if (i < 2) {
			assert_int_equal(
				pwrite(fds[i], segment->statistics, segment->statistics_bytes, 0),
				segment->statistics_bytes);
		}
		assert_int_equal(
			weir_segment_attach(fds[i], segment->tables_fd, &other, why, sizeof(why)),
			-EPROTO);
		if (i < 2) {
			assert_int_equal(ftruncate(fds[i], (off_t)segment->tables_bytes), 0);
		}
		assert_int_equal(weir_segment_attach(
					 segment->statistics_fd, fds[i], &other, why, sizeof(why)),
			-EPROTO);
		assert_null(other);
		close(fds[i]);
	}
	weir_segment_free(segment);
}
