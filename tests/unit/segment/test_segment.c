// SPDX-License-Identifier: BSD-3-Clause
//
// Segment: creation, seals, and attaching with another mapping. test_segment_broken.c tests invalid
// segments.
#include "segment_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fingerprint.h"
#include "grace.h"

static const struct weir_port_info port_info[2] = {{.name = "wan"}, {.name = "lan"}};

static struct weir_segment_params params(void) {
	return (struct weir_segment_params){
		.workers = 2,
		.ports = 2,
		.max_services = 10,
		.max_backends = 100,
		.heap_bytes = 100000,
		.tsc_hz = 123,
		.hash_seed = 456,
		.port_info = port_info,
	};
}

static struct weir_segment *attach(const struct weir_segment *segment) {
	struct weir_segment *other = NULL;
	char why[200] = "";
	int r = weir_segment_attach(
		dup(segment->statistics_fd), dup(segment->tables_fd), &other, why, sizeof(why));

	if (r < 0) {
		fail_msg("attach: %d: %s", r, why);
	}
	return other;
}

TEST(attached_segment_equals_the_created_one) {
	struct weir_segment *segment = fixture_segment(FIXTURE_HEAP_BYTES);
	struct weir_segment *other = attach(segment);

	assert_ptr_not_equal(segment->statistics, other->statistics);
	assert_ptr_not_equal(segment->tables, other->tables);
	assert_true(segment->epoch != 0 && segment->epoch == other->epoch);
	assert_int_equal(other->statistics_bytes, segment->statistics_bytes);
	assert_int_equal(other->tables_bytes, segment->tables_bytes);
	assert_int_equal(other->workers, FIXTURE_WORKERS);
	assert_int_equal(other->ports, 2);
	assert_int_equal(other->max_services, FIXTURE_SERVICES);
	assert_int_equal(other->max_backends, FIXTURE_BACKENDS);
	assert_true(other->heap_bytes >= FIXTURE_HEAP_BYTES);
	assert_int_equal(other->header->fingerprint, weir_layout_fingerprint());
	assert_int_equal(other->header->tsc_hz, 1000000000);
	assert_int_equal(other->header->hash_seed, 42);
	assert_int_equal(other->header->dataplane_pid, getpid());
	assert_string_equal(other->header->port[0].name, "wan");
	assert_string_equal(other->header->port[1].name, "lan");
	assert_string_equal(other->header->port[0].kernel_interface, "eth0");
	weir_segment_backend_counters(segment, 2, 299)->packets = 5;
	weir_counter_add(&weir_segment_service_counters(segment, 2, 15)->bytes, 7);
	weir_counter_add(&segment->worker_counters[1].rx_packets, 9);
	assert_int_equal(
		weir_counter_read(&weir_segment_backend_counters(other, 2, 299)->packets), 5);
	assert_int_equal(weir_counter_read(&weir_segment_service_counters(other, 2, 15)->bytes), 7);
	assert_int_equal(weir_counter_read(&other->worker_counters[1].rx_packets), 9);
	other->costs[299] = 11;
	other->rows[299].version = 13;
	other->identity_backends[299].reported_weight = 17;
	assert_int_equal(segment->costs[299], 11);
	assert_int_equal(segment->rows[299].version, 13);
	assert_int_equal(segment->identity_backends[299].reported_weight, 17);
	weir_segment_free(segment);
	// The memory exists as long as there is a mapping.
	assert_int_equal(weir_segment_backend_counters(other, 2, 299)->packets, 5);
	weir_segment_free(other);
	weir_segment_free(NULL);
}

// Owners and counters of buckets, written by workers and read by control.
TEST(buckets_have_the_values_of_the_workers) {
	struct weir_segment_params p = params();
	struct weir_segment *segment = NULL, *control;

	p.bucketing = WEIR_BUCKETING_YES;
	assert_int_equal(weir_segment_create(&p, &segment), 0);
	control = attach(segment);
	assert_int_equal(control->bucketing, WEIR_BUCKETING_YES);
	weir_segment_own_bucket(segment, WEIR_BUCKETS - 1, 1);
	assert_int_equal(weir_segment_bucket_owner(control, WEIR_BUCKETS - 1), 1);
	assert_int_equal(weir_segment_bucket_owner(control, WEIR_BUCKETS - 2), 0);
	weir_counter_add(&segment->bucket_packets[1].packets[WEIR_BUCKETS - 1], 3);
	assert_int_equal(
		weir_counter_read(&control->bucket_packets[1].packets[WEIR_BUCKETS - 1]), 3);
	weir_counter_add(&segment->steal_counters[1].answers[WEIR_BUCKET_LATE], 5);
	assert_int_equal(
		weir_counter_read(&control->steal_counters[1].answers[WEIR_BUCKET_LATE]), 5);
	weir_segment_free(control);
	weir_segment_free(segment);
}

TEST(workers_steal_if_control_enables_it_and_flows_are_in_buckets) {
	struct weir_segment_params p = params();
	struct weir_segment *segment = NULL, *control;

	for (int bucketing = 0; bucketing < WEIR_BUCKETING_COUNT; bucketing++) {
		p.bucketing = (enum weir_bucketing)bucketing;
		assert_int_equal(weir_segment_create(&p, &segment), 0);
		control = attach(segment);
		assert_false(weir_segment_stealing(segment));
		control->news->stealing = WEIR_STEALING_ON;
		assert_int_equal(weir_segment_stealing(segment), bucketing == WEIR_BUCKETING_YES);
		control->news->stealing = WEIR_STEALING_OFF;
		assert_false(weir_segment_stealing(segment));
		control->news->stealing = 99; // written by an untrusted process
		assert_false(weir_segment_stealing(segment));
		weir_segment_free(control);
		weir_segment_free(segment);
	}
}

TEST(new_segment_is_empty_with_workers_offline) {
	struct weir_segment *segment = fixture_segment(FIXTURE_HEAP_BYTES);
	struct weir_segment *control = fixture_control(segment);
	struct weir_grace grace = weir_grace_open(control);

	assert_int_equal(segment->roots->services, 0);
	assert_int_equal(segment->notes->control_pid, 0);
	assert_int_equal(segment->news->updates, 0);
	for (uint32_t i = 0; i < FIXTURE_SERVICES; i++) {
		assert_int_equal(segment->roots->selection[i], 0);
	}
	for (uint32_t i = 0; i < FIXTURE_WORKERS; i++) {
		assert_int_equal(segment->quiescence[i].token, 0);
	}
	assert_true(weir_grace_passed(&grace, weir_grace_start(&grace)));
	weir_segment_free(control);
	weir_segment_free(segment);
}

// Structures that are written by different threads or processes are in separate cache lines.
TEST(regions_start_on_separate_lines) {
	struct weir_segment *segment = fixture_segment(FIXTURE_HEAP_BYTES);
	const void *const starts[] = {segment->quiescence, segment->refusals,
		segment->worker_counters, segment->worker_boxes, segment->port_counters,
		segment->bucket_packets, segment->bucket_owners, segment->steal_counters,
		segment->service_counters, segment->backend_counters, segment->news, segment->notes,
		segment->updates, segment->roots, segment->control_boxes,
		segment->identity_services, segment->identity_backends, segment->service_bases,
		segment->backend_bases, segment->rows, segment->costs};

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		assert_int_equal((uintptr_t)starts[i] % 64, 0);
	}
	// `news` and `notes` must not share a cache line, because workers read `news` in every
	// iteration, and control writes `notes` in every publication.
	assert_true((uint8_t *)segment->notes - (uint8_t *)segment->news >= 64);
	assert_true((uint8_t *)segment->updates - (uint8_t *)segment->notes >= 64);
	weir_segment_free(segment);
}

TEST(epoch_is_new_at_every_creation) {
	struct weir_segment *a = fixture_segment(4096), *b = fixture_segment(4096);

	assert_true(a->epoch != b->epoch);
	weir_segment_free(a);
	weir_segment_free(b);
}

static uint64_t backed_bytes(int fd) {
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	return (uint64_t)st.st_blocks * 512;
}

TEST(memory_is_sealed_private_and_sparse) {
	struct weir_segment *segment = fixture_segment(1ull << 30);
	const int fds[] = {segment->statistics_fd, segment->tables_fd};
	const uint64_t bytes[] = {segment->statistics_bytes, segment->tables_bytes};

	assert_int_equal(fcntl(fds[0], F_GET_SEALS),
		F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL | F_SEAL_FUTURE_WRITE);
	assert_int_equal(fcntl(fds[1], F_GET_SEALS), F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(ftruncate(fds[i], 4096), -1);
		assert_int_equal(ftruncate(fds[i], (off_t)bytes[i] + 4096), -1);
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
	}
	// All of the statistics memory is allocated, so that no store of a worker can fail. Only
	// the part of the tables memory that workers read before the first publication is
	// allocated.
	assert_true(backed_bytes(fds[0]) >= segment->statistics_bytes);
	assert_in_range(backed_bytes(fds[1]), segment->header->identity_services_off, 1u << 20);
	weir_segment_free(segment);
}

TEST(largest_and_smallest_segments_work) {
	struct weir_segment_params p = params();
	struct weir_port_info ports[WEIR_PORTS_MAX] = {{.name = ""}};
	struct weir_segment *segment = NULL;

	p.workers = p.ports = p.max_services = p.max_backends = 1;
	p.heap_bytes = 64;
	assert_int_equal(weir_segment_create(&p, &segment), 0);
	weir_segment_free(attach(segment));
	weir_segment_free(segment);
	p.workers = WEIR_WORKERS_MAX;
	p.ports = WEIR_PORTS_MAX;
	p.max_services = WEIR_SERVICES_MAX;
	p.max_backends = 2000;
	p.port_info = ports;
	p.heap_bytes = 64ull << 30;
	assert_int_equal(weir_segment_create(&p, &segment), 0);
	weir_segment_free(attach(segment));
	weir_segment_free(segment);
}

TEST(parameters_out_of_range_are_refused) {
	struct weir_segment *segment = NULL;
	struct weir_segment_params bad[13];
	unsigned int n = 0;

	for (unsigned int i = 0; i < 13; i++) {
		bad[i] = params();
	}
	bad[n++].workers = 0;
	bad[n++].workers = WEIR_WORKERS_MAX + 1;
	bad[n++].ports = 0;
	bad[n++].ports = WEIR_PORTS_MAX + 1;
	bad[n++].max_services = 0;
	bad[n++].max_services = WEIR_SERVICES_MAX + 1;
	bad[n++].max_backends = 0;
	bad[n++].max_backends = WEIR_BACKENDS_MAX + 1;
	bad[n++].heap_bytes = 0;
	bad[n++].heap_bytes = UINT64_MAX;
	bad[n++].heap_bytes = 1ull << 38;
	bad[n++].port_info = NULL;
	bad[n++].bucketing = WEIR_BUCKETING_COUNT;
	for (unsigned int i = 0; i < n; i++) {
		assert_int_equal(weir_segment_create(&bad[i], &segment), -EINVAL);
		assert_null(segment);
	}
}

TEST(unterminated_names_are_truncated) {
	struct weir_segment_params p = params();
	struct weir_port_info ports[2];
	struct weir_segment *segment = NULL;

	memset(ports, 'x', sizeof(ports));
	p.port_info = ports;
	assert_int_equal(weir_segment_create(&p, &segment), 0);
	assert_int_equal(strlen(segment->header->port[1].name), WEIR_NAME_BYTES - 1);
	weir_segment_free(attach(segment));
	weir_segment_free(segment);
}

static uint64_t free_huge_pages(void) {
	FILE *file = fopen("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages", "r");
	unsigned long long n = 0;

	if (file == NULL) {
		return 0;
	}
	if (fscanf(file, "%llu", &n) != 1) {
		n = 0;
	}
	fclose(file);
	return n;
}

static uint64_t taken_bytes(int fd) {
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

// If there are huge pages, the segment works with them. Otherwise creation fails with -ENOMEM.
TEST(huge_pages_work_or_are_refused) {
	struct weir_segment_params p = params();
	struct weir_segment *segment = NULL;
	uint64_t pages = free_huge_pages();
	int r;

	p.huge_pages = true;
	p.max_backends = WEIR_BACKENDS_MAX; // the counters have separate huge pages
	r = weir_segment_create(&p, &segment);
	print_message("%llu huge pages free: create returns %d\n", (unsigned long long)pages, r);
	if (r != 0) {
		assert_int_equal(r, -ENOMEM);
		assert_null(segment);
		return;
	}
	assert_int_equal(segment->heap_off % (2u << 20), 0);
	assert_int_equal(segment->statistics_bytes % (2u << 20), 0);
	assert_int_equal(segment->tables_bytes % (2u << 20), 0);
	// All pages are allocated, because an access to a missing page would later kill control.
	assert_int_equal(taken_bytes(segment->statistics_fd), segment->statistics_bytes);
	assert_int_equal(taken_bytes(segment->tables_fd), segment->heap_off);
	weir_segment_free(attach(segment));
	weir_segment_free(segment);
}

TEST(too_few_huge_pages_is_out_of_memory) {
	struct weir_segment_params p = params();
	struct weir_segment *segment = NULL;

	p.huge_pages = true;
	p.workers = WEIR_WORKERS_MAX;
	p.max_backends = WEIR_BACKENDS_MAX; // 128 pages of counters
	if (free_huge_pages() > 100) {
		skip();
	}
	assert_int_equal(weir_segment_create(&p, &segment), -ENOMEM);
}

TEST(refused_descriptor_still_belongs_to_the_caller) {
	struct weir_segment *good = fixture_segment(FIXTURE_HEAP_BYTES);
	int fd = memfd_create("not a segment", MFD_CLOEXEC);
	struct weir_segment *segment = NULL;
	char why[200] = "";

	assert_true(fd >= 0);
	assert_int_equal(
		weir_segment_attach(fd, good->tables_fd, &segment, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "sealed"));
	why[0] = '\0';
	assert_int_equal(
		weir_segment_attach(good->statistics_fd, fd, &segment, why, sizeof(why)), -EPROTO);
	assert_non_null(strstr(why, "sealed"));
	// The two descriptors are swapped.
	assert_int_equal(weir_segment_attach(
				 good->tables_fd, good->statistics_fd, &segment, why, sizeof(why)),
		-EPROTO);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(good->statistics_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(good->tables_fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(close(fd), 0);
	assert_int_equal(
		weir_segment_attach(-1, good->tables_fd, &segment, why, sizeof(why)), -EBADF);
	assert_int_equal(weir_segment_attach(good->statistics_fd, -1, &segment, NULL, 0), -EBADF);
	assert_null(segment);
	weir_segment_free(good);
}

static uint64_t memory_of(int fd) {
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

// The dataplane maps only heap memory that control has written. If `notes` claims a larger heap,
// the dataplane allocates no memory for the part that was not written.
TEST(noted_heap_without_memory_is_not_mapped) {
	const uint64_t written = 3 * 4096 + 64, heap = 64u << 20;
	struct weir_segment *segment = fixture_segment(heap);
	struct weir_segment *control = fixture_control(segment);
	uint64_t before;

	memset(control->tables + control->heap_off, 1, written);
	control->notes->heap_used = written;
	before = memory_of(segment->tables_fd);
	assert_int_equal(weir_segment_follow(segment), 0);
	assert_int_equal(segment->mapped_heap, written);
	control->notes->heap_used = segment->heap_bytes;
	assert_int_equal(weir_segment_follow(segment), 0);
	assert_int_equal(memory_of(segment->tables_fd), before);
	memset(control->tables + control->heap_off + (heap >> 1), 1, written);
	before = memory_of(segment->tables_fd);
	assert_int_equal(weir_segment_follow(segment), 0);
	assert_true(segment->mapped_heap >= (heap >> 1) + written);
	assert_int_equal(memory_of(segment->tables_fd), before);
	weir_segment_free(control);
	weir_segment_free(segment);
}
