// SPDX-License-Identifier: BSD-3-Clause
//
// Memory of the segment is allocated before it is used. If the machine has no free memory, the
// allocation fails, and the memory is not used. Without the allocation, the first access to missing
// memory could kill the process, at least with huge pages.
#include "writer_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

static unsigned int granted; // number of calls to fallocate that succeed
static bool full; // further calls fail, because no memory is free

int __real_fallocate64(int fd, int mode, off_t offset, off_t bytes);
int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes);

int __wrap_fallocate64(int fd, int mode, off_t offset, off_t bytes) {
	if (full && granted == 0) {
		errno = ENOMEM;
		return -1;
	}
	granted -= full;
	return __real_fallocate64(fd, mode, offset, bytes);
}

static uint64_t taken(int fd) {
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static int setup_many(void **state) {
	static const struct weir_port_info port = {.name = "wan"};
	const struct weir_segment_params params = {
		.workers = 3,
		.ports = 1,
		.max_services = 16,
		.max_backends = 20000,
		.heap_bytes = 1 << 20,
		.port_info = &port,
	};
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	assert_int_equal(weir_segment_create(&params, &f->segment), 0);
	f->control = fixture_control(f->segment);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	*state = f;
	return 0;
}

TEST_EACH(setup_many, teardown);

// Control allocates the memory for the counters of new ids before it reads the counters. The
// dataplane then needs no further memory for the counters of these ids.
TEST(ids_in_use_have_memory_for_their_counters) {
	struct lab *f = *state;
	uint64_t before;

	assert_int_equal(weir_writer_reserve(f->writer, 4, 10), 0);
	assert_int_equal(weir_segment_follow(f->segment), 0);
	before = taken(f->control->statistics_fd);
	assert_int_equal(weir_writer_reserve(f->writer, 4, 5000), 0);
	assert_true(taken(f->control->statistics_fd) - before >=
		    UINT64_C(3) * (5000 - 1024) * sizeof(struct weir_share_counters));
	full = true;
	granted = 0;
	for (uint32_t worker = 0; worker < 3; worker++) {
		assert_int_equal(
			weir_segment_backend_counters(f->control, worker, 4999)->new_flows, 0);
	}
	// These ids already have memory.
	assert_int_equal(weir_writer_reserve(f->writer, 4, 5000), 0);
	full = false;
	before = taken(f->control->statistics_fd);
	assert_int_equal(weir_segment_follow(f->segment), 0);
	assert_int_equal(f->segment->counted_backends, 5120);
	assert_int_equal(taken(f->control->statistics_fd), before);
}

// If any allocation fails, no new id is used. All ids are used when enough memory is free.
TEST(without_memory_no_id_is_used) {
	struct lab *f = *state;
	int r = -ENOMEM;
	unsigned int calls;

	assert_int_equal(weir_writer_reserve(f->writer, 4, 10), 0);
	for (calls = 0; r == -ENOMEM; calls++) {
		full = true;
		granted = calls;
		r = weir_writer_reserve(f->writer, 8, 5000);
		full = false;
		if (r == -ENOMEM) {
			assert_int_equal(f->segment->notes->backend_ids, 10);
			assert_int_equal(f->segment->notes->service_ids, 4);
		}
	}
	assert_int_equal(r, 0);
	assert_true(calls > 3 + 6); // counters of three workers, and six arrays
	assert_int_equal(f->segment->notes->backend_ids, 5000);
	assert_int_equal(f->segment->notes->service_ids, 8);
}

// The heap has room, but the machine has no memory.
TEST(blob_without_memory_is_not_reported_as_full_heap) {
	struct lab *f = *state;
	struct weir_blob *blob;

	full = true;
	granted = 0;
	errno = 0;
	blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 4096);
	full = false;
	assert_null(blob);
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(usage(f).used_bytes, 0);
	blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 4096);
	assert_non_null(blob);
	weir_writer_discard(f->writer, blob);
}
