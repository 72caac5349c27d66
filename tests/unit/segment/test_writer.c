// SPDX-License-Identifier: BSD-3-Clause
//
// Writer: allocation, publication, reclamation. test_writer_open.c tests a writer that is opened
// after another writer.
#include "writer_lab.h"

#include <errno.h>
#include <unistd.h>

#include "blob.h"

TEST_EACH(setup, teardown);

TEST(blob_is_zeroed_aligned_and_has_its_header) {
	struct lab *f = *state;
	uint64_t before = 0;

	for (unsigned int round = 0; round < 3; round++) {
		struct weir_blob *blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 1000);
		const uint8_t *bytes = (const uint8_t *)blob;

		assert_non_null(blob);
		assert_int_equal((uintptr_t)blob % 64, 0);
		assert_int_equal(blob->kind, WEIR_BLOB_SELECTION);
		assert_int_equal(blob->lines, 16);
		assert_true(blob->generation > before);
		before = blob->generation;
		for (size_t i = sizeof(*blob); i < 1024; i++) {
			assert_int_equal(bytes[i], 0);
		}
		memset(blob + 1, 0xee, 1024 - sizeof(*blob));
		weir_writer_discard(f->writer, blob);
	}
	assert_int_equal(usage(f).used_bytes, 0);
	weir_writer_discard(f->writer, NULL);
}

TEST(impossible_sizes_and_kinds_are_refused) {
	struct lab *f = *state;

	errno = 0;
	assert_null(weir_writer_alloc(f->writer, (enum weir_blob_kind)0, 100));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, (enum weir_blob_kind)3, 100));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, 8));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, UINT64_MAX));
	assert_int_equal(errno, ENOSPC);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, f->segment->heap_bytes + 1));
	assert_int_equal(errno, ENOSPC);
}

TEST(published_blob_is_current_and_counted) {
	const struct weir_root root = fixture_selection_root(3);
	struct lab *f = *state;
	struct weir_selection *selection = fixture_selection(f->writer, 3, 10, 251);
	uint64_t updates = f->segment->news->updates;
	weir_ref ref;

	assert_null(weir_writer_current(f->writer, root));
	assert_int_equal(weir_writer_publish(f->writer, root, selection), 0);
	assert_ptr_equal(weir_writer_current(f->writer, root), selection);
	ref = f->segment->roots->selection[3];
	assert_int_equal(weir_ref_generation(ref), selection->blob.generation);
	assert_ptr_equal(f->control->tables + weir_ref_offset(ref), selection);
	assert_int_equal(f->segment->notes->publications, 1);
	assert_int_equal(f->segment->notes->control_pid, getpid());
	assert_int_equal(f->segment->news->updates, updates + 1);
	assert_int_equal(f->segment->updates->update[updates % WEIR_UPDATES],
		weir_update(WEIR_UPDATE_SELECTION, 3));
	assert_int_equal(usage(f).blobs, 1);
	assert_int_equal(usage(f).used_bytes, blob_bytes(selection));
	assert_int_equal(weir_writer_publish(f->writer, root, NULL), 0);
	assert_int_equal(f->segment->roots->selection[3], 0);
	assert_int_equal(f->segment->news->updates, updates + 2);
	assert_null(weir_writer_current(f->writer, root));
	assert_int_equal(usage(f).blobs, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, 0);
}

TEST(wrong_publication_is_refused_and_the_blob_discarded) {
	struct lab *f = *state;

	publish_selection(f, 0, 4);
	uint64_t used = usage(f).used_bytes;
	weir_ref ref = f->segment->roots->selection[0];

	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0),
				 weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, 640)),
		-EINVAL);
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(FIXTURE_SERVICES),
				 fixture_selection(f->writer, 0, 4, 251)),
		-EINVAL);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_selection_root(FIXTURE_SERVICES), NULL),
		-EINVAL);
	assert_int_equal(usage(f).used_bytes, used);
	assert_int_equal(f->segment->roots->selection[0], ref);
	// A published blob is not owned by the caller, so the caller cannot publish it again.
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0),
				 (void *)weir_writer_current(f->writer, fixture_selection_root(0))),
		-EINVAL);
	assert_int_equal(usage(f).used_bytes, used);
	assert_null(weir_writer_current(f->writer, fixture_selection_root(FIXTURE_SERVICES)));
}

TEST(replaced_blob_waits_for_every_worker) {
	struct lab *f = *state;
	uint64_t live, both;

	online(f, 0);
	online(f, 2);
	publish_selection(f, 0, 4);
	live = usage(f).used_bytes;
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	publish_selection(f, 0, 4);
	both = usage(f).used_bytes;
	assert_int_equal(both, 2 * live);
	assert_int_equal(usage(f).retired_bytes, live);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	report(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	assert_int_equal(weir_writer_synchronize(f->writer, 20), -ETIMEDOUT);
	assert_int_equal(usage(f).used_bytes, both);
	report(f, 2);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, live);
	assert_int_equal(usage(f).retired_bytes, 0);
	assert_int_equal(weir_writer_synchronize(f->writer, 0), 0);
}

// A blob that is retired during a grace period must wait for the next grace period.
TEST(grace_period_in_progress_does_not_cover_later_blobs) {
	struct lab *f = *state;

	online(f, 0);
	publish_selection(f, 0, 4);
	publish_selection(f, 0, 4);
	publish_selection(f, 0, 4);
	assert_int_equal(weir_writer_reclaim(f->writer), 2);
	publish_selection(f, 0, 4);
	assert_int_equal(weir_writer_reclaim(f->writer), 3);
	report(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	offline(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
}

TEST(marks_pass_after_a_quiescent_state) {
	struct lab *f = *state;
	uint64_t first, second;

	first = weir_writer_mark(f->writer);
	assert_true(weir_writer_passed(f->writer, first));
	online(f, 1);
	first = weir_writer_mark(f->writer);
	assert_false(weir_writer_passed(f->writer, first));
	report(f, 1);
	second = weir_writer_mark(f->writer);
	assert_true(weir_writer_passed(f->writer, first));
	assert_false(weir_writer_passed(f->writer, second));
	report(f, 1);
	assert_true(weir_writer_passed(f->writer, second));
	assert_true(weir_writer_passed(f->writer, first));
}

TEST(memory_is_reused_and_neighbours_join) {
	struct lab *f = *state;
	void *blob[8], *large;

	for (unsigned int i = 0; i < 8; i++) {
		blob[i] = weir_writer_alloc(
			f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes / 8);
		assert_non_null(blob[i]);
	}
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 64));
	// The order covers each case: the freed extent has no free neighbour, a free neighbour
	// before it, a free neighbour after it, or free neighbours on both sides.
	weir_writer_discard(f->writer, blob[2]);
	weir_writer_discard(f->writer, blob[3]);
	weir_writer_discard(f->writer, blob[5]);
	weir_writer_discard(f->writer, blob[1]);
	weir_writer_discard(f->writer, blob[4]);
	large = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes / 8 * 5);
	assert_ptr_equal(large, blob[1]);
	weir_writer_discard(f->writer, large);
	weir_writer_discard(f->writer, blob[7]);
	weir_writer_discard(f->writer, blob[0]);
	weir_writer_discard(f->writer, blob[6]);
	large = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes);
	assert_ptr_equal(large, blob[0]);
	weir_writer_discard(f->writer, large);
	assert_int_equal(usage(f).used_bytes, 0);
}

// If the heap is full, an allocation first reclaims retired blobs.
TEST(allocation_reclaims_if_needed) {
	struct lab *f = *state;
	uint64_t half = f->segment->heap_bytes / 2;

	for (unsigned int i = 0; i < 10; i++) {
		void *table = weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, half);

		assert_non_null(table);
		assert_int_equal(
			weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table), 0);
	}
	online(f, 0);
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES),
				 weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, half)),
		0);
	// EBUSY: memory will be free when the worker reports. ENOSPC (below): there is not enough
	// memory even then.
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, half));
	assert_int_equal(errno, EBUSY);
	report(f, 0);
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES),
				 weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, half)),
		0);
	report(f, 0);
	weir_writer_reclaim(f->writer);
	report(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, 2 * half));
	assert_int_equal(errno, ENOSPC);
	offline(f, 0);
}

// Publications while a worker is stalled must not fill the whole heap.
TEST(retired_memory_is_bounded_while_a_worker_is_stalled) {
	const struct weir_root root = fixture_root(WEIR_BLOB_SERVICES);
	struct weir_segment *segment = fixture_segment(1u << 30);
	struct weir_segment *control = fixture_control(segment);
	const uint64_t bytes = 1u << 20;
	struct weir_writer *writer = NULL;
	struct weir_writer_usage u;
	unsigned int published = 0;
	void *blob;

	assert_int_equal(weir_writer_open(control, &writer), 0);
	weir_grace_online(segment, 1);
	while ((blob = weir_writer_alloc(writer, WEIR_BLOB_SERVICES, bytes)) != NULL) {
		assert_int_equal(weir_writer_publish(writer, root, blob), 0);
		assert_true(++published < 100);
	}
	assert_int_equal(errno, EBUSY);
	weir_writer_usage(writer, &u);
	assert_in_range(u.retired_bytes, 16 * bytes, 17 * bytes);
	assert_true(u.backed_bytes < 20 * bytes);
	assert_int_equal(u.waiting_for, 1);
	// When the worker reports again, allocations succeed again.
	weir_grace_report(segment, 1, weir_grace_token(segment));
	blob = weir_writer_alloc(writer, WEIR_BLOB_SERVICES, bytes);
	assert_non_null(blob);
	weir_writer_discard(writer, blob);
	weir_writer_usage(writer, &u);
	assert_true(u.retired_bytes < 17 * bytes);
	weir_grace_offline(segment, 1);
	assert_int_equal(weir_writer_synchronize(writer, 0), 0);
	weir_writer_usage(writer, &u);
	assert_int_equal(u.retired_bytes, 0);
	assert_int_equal(u.waiting_for, WEIR_WORKERS_MAX);
	weir_writer_free(writer);
	weir_segment_free(control);
	weir_segment_free(segment);
}

TEST(first_worker_that_is_waited_for_is_named) {
	struct lab *f = *state;

	assert_int_equal(usage(f).waiting_for, WEIR_WORKERS_MAX);
	online(f, 1);
	online(f, 2);
	publish_selection(f, 0, 4);
	publish_selection(f, 0, 4);
	assert_int_equal(usage(f).waiting_for, WEIR_WORKERS_MAX); // no grace period was started yet
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	assert_int_equal(usage(f).waiting_for, 1);
	report(f, 1);
	assert_int_equal(usage(f).waiting_for, 2);
	offline(f, 2);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).waiting_for, WEIR_WORKERS_MAX);
}

TEST(memory_is_allocated_as_it_is_used) {
	struct lab *f = *state;
	uint64_t before = usage(f).backed_bytes;
	void *blob;

	assert_int_equal(usage(f).heap_bytes, f->segment->heap_bytes);
	assert_true(before <= f->segment->heap_off);
	blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 500000);
	assert_in_range(usage(f).backed_bytes, before + 500000, before + 800000);
	weir_writer_discard(f->writer, blob);
	for (unsigned int i = 0; i < 1000; i++) {
		weir_writer_discard(
			f->writer, weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 400000));
	}
	assert_in_range(usage(f).backed_bytes, before + 500000, before + 800000);
}

static uint64_t pages(uint64_t bytes) {
	return (bytes + 4095) / 4096 * 4096;
}

// Reserved ids have memory, and ids that are not reserved have no memory.
TEST(reserved_ids_have_memory) {
	struct lab *f = *state;
	uint64_t before = usage(f).backed_bytes;
	const uint32_t steps[][2] = {{0, 0}, {1, 1}, {3, 40}, {2, 100}, {FIXTURE_SERVICES, 7},
		{FIXTURE_SERVICES, FIXTURE_BACKENDS}};
	uint32_t services = 0, backends = 0;

	for (size_t step = 0; step < sizeof(steps) / sizeof(steps[0]); step++) {
		assert_int_equal(weir_writer_reserve(f->writer, steps[step][0], steps[step][1]), 0);
		services = steps[step][0] > services ? steps[step][0] : services;
		backends = steps[step][1] > backends ? steps[step][1] : backends;
		assert_int_equal(f->segment->notes->service_ids, services);
		assert_int_equal(f->segment->notes->backend_ids, backends);
		// Each array starts on a separate page.
		assert_int_equal(usage(f).backed_bytes - before,
			pages(services * sizeof(struct weir_identity_service)) +
				pages(services * sizeof(struct weir_share_counters)) +
				pages(backends * sizeof(struct weir_identity_backend)) +
				pages(backends * sizeof(struct weir_share_counters)) +
				pages(backends * sizeof(struct weir_row_pair)) +
				pages(backends * sizeof(uint64_t)));
	}
	assert_int_equal(weir_writer_reserve(f->writer, FIXTURE_SERVICES + 1, 0), -EINVAL);
	assert_int_equal(weir_writer_reserve(f->writer, 0, FIXTURE_BACKENDS + 1), -EINVAL);
	assert_int_equal(weir_writer_reserve(f->writer, UINT32_MAX, UINT32_MAX), -EINVAL);
	assert_int_equal(f->segment->notes->service_ids, FIXTURE_SERVICES);
	// The arrays never shrink, even if another writer is opened.
	reopen(f);
	assert_int_equal(weir_writer_reserve(f->writer, 1, 1), 0);
	assert_int_equal(f->segment->notes->service_ids, FIXTURE_SERVICES);
	assert_int_equal(f->segment->notes->backend_ids, FIXTURE_BACKENDS);
}

// After random operations, the used memory is the sum of all blobs in use.
TEST(random_operations_leak_nothing) {
	struct lab *f = *state;
	void *held[40] = {NULL};
	uint64_t held_bytes[40] = {0};
	uint64_t seed = 11, expected = 0;

	for (unsigned int round = 0; round < 50000; round++) {
		unsigned int i = (unsigned int)(fixture_random(&seed) % 40);
		uint64_t bytes = 64 + fixture_random(&seed) % 40000;

		if (held[i] != NULL) {
			// The pattern that the test wrote into the blob must be unchanged.
			const uint8_t *p = (const uint8_t *)held[i] + sizeof(struct weir_blob);

			assert_int_equal(p[0], i);
			assert_int_equal(p[held_bytes[i] - sizeof(struct weir_blob) - 1], i);
			weir_writer_discard(f->writer, held[i]);
			expected -= held_bytes[i];
			held[i] = NULL;
			continue;
		}
		held[i] = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, bytes);
		if (held[i] != NULL) {
			held_bytes[i] = (bytes + 63) / 64 * 64;
			expected += held_bytes[i];
			memset((uint8_t *)held[i] + sizeof(struct weir_blob), (int)i,
				held_bytes[i] - sizeof(struct weir_blob));
		}
		assert_int_equal(usage(f).used_bytes, expected);
	}
	for (unsigned int i = 0; i < 40; i++) {
		weir_writer_discard(f->writer, held[i]);
	}
	held[0] = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes);
	assert_non_null(held[0]);
	weir_writer_discard(f->writer, held[0]);
}
