// SPDX-License-Identifier: BSD-3-Clause
//
// Writer: allocation, publication, reclamation, and opening over what another writer left.
#include "segment_lab.h"

#include <errno.h>
#include <rte_rcu_qsbr.h>
#include <stdlib.h>
#include <unistd.h>

#include "reader.h"

struct lab {
	struct weir_segment *segment;
	struct weir_writer *writer;
};

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	assert_int_equal(weir_writer_open(f->segment, &f->writer), 0);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_writer_free(f->writer);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

static struct weir_writer_usage usage(const struct lab *f) {
	struct weir_writer_usage u;

	weir_writer_usage(f->writer, &u);
	return u;
}

// End this writer without a word and open another, as after a SIGKILL.
static void reopen(struct lab *f) {
	weir_writer_free(f->writer);
	f->writer = NULL;
	assert_int_equal(weir_writer_open(f->segment, &f->writer), 0);
}

static void publish_selection(struct lab *f, uint16_t service, uint32_t n) {
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(service),
				 fixture_selection(f->writer, service, n, 251)),
		0);
}

static void blob_is_zeroed_aligned_and_has_its_header(void **state) {
	struct lab *f = *state;
	uint32_t before = 0;

	for (unsigned int round = 0; round < 3; round++) {
		struct weir_blob *blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 1000);
		const uint8_t *bytes = (const uint8_t *)blob;

		assert_non_null(blob);
		assert_int_equal((uintptr_t)blob % 64, 0);
		assert_int_equal(blob->kind, WEIR_BLOB_SELECTION);
		assert_int_equal(blob->bytes, 1024);
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

static void impossible_sizes_and_kinds_are_refused(void **state) {
	struct lab *f = *state;

	errno = 0;
	assert_null(weir_writer_alloc(f->writer, (enum weir_blob_kind)0, 100));
	assert_int_equal(errno, EINVAL);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, (enum weir_blob_kind)5, 100));
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

static void published_blob_is_current_and_counted(void **state) {
	struct lab *f = *state;
	struct weir_backend_table *table = fixture_backends(f->writer, 10);

	assert_null(weir_writer_current(f->writer, fixture_root(WEIR_BLOB_BACKENDS)));
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS), table), 0);
	assert_ptr_equal(weir_writer_current(f->writer, fixture_root(WEIR_BLOB_BACKENDS)), table);
	assert_int_equal(f->segment->roots->backends >> 32, table->blob.generation);
	assert_ptr_equal(f->segment->base + (f->segment->roots->backends & 0xffffffff) * 64, table);
	assert_int_equal(f->segment->roots->publications, 1);
	assert_int_equal(f->segment->roots->control_pid, getpid());
	assert_int_equal(usage(f).blobs, 1);
	assert_int_equal(usage(f).used_bytes, table->blob.bytes);
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS), NULL), 0);
	assert_int_equal(f->segment->roots->backends, 0);
	assert_null(weir_writer_current(f->writer, fixture_root(WEIR_BLOB_BACKENDS)));
	assert_int_equal(usage(f).blobs, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, 0);
}

static void wrong_publication_is_refused_and_the_blob_discarded(void **state) {
	struct lab *f = *state;

	publish_selection(f, 0, 4);
	uint64_t used = usage(f).used_bytes;
	weir_ref ref = f->segment->roots->selection[0];

	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0),
				 fixture_backends(f->writer, 4)),
		-EINVAL);
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(FIXTURE_SERVICES),
				 fixture_selection(f->writer, 0, 4, 251)),
		-EINVAL);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_selection_root(FIXTURE_SERVICES), NULL),
		-EINVAL);
	assert_int_equal(usage(f).used_bytes, used);
	assert_int_equal(f->segment->roots->selection[0], ref);
	// What is published already belongs to nobody who could publish it again.
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0),
				 (void *)weir_writer_current(f->writer, fixture_selection_root(0))),
		-EINVAL);
	assert_int_equal(usage(f).used_bytes, used);
	assert_null(weir_writer_current(f->writer, fixture_selection_root(FIXTURE_SERVICES)));
}

static void replaced_blob_waits_for_every_worker(void **state) {
	struct lab *f = *state;
	uint64_t live, both;

	rte_rcu_qsbr_thread_online(f->segment->qsbr, 0);
	rte_rcu_qsbr_thread_online(f->segment->qsbr, 2);
	publish_selection(f, 0, 4);
	live = usage(f).used_bytes;
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	publish_selection(f, 0, 4);
	both = usage(f).used_bytes;
	assert_int_equal(both, 2 * live);
	assert_int_equal(usage(f).retired_bytes, live);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	rte_rcu_qsbr_quiescent(f->segment->qsbr, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	assert_int_equal(weir_writer_synchronize(f->writer, 20), -ETIMEDOUT);
	assert_int_equal(usage(f).used_bytes, both);
	rte_rcu_qsbr_quiescent(f->segment->qsbr, 2);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, live);
	assert_int_equal(usage(f).retired_bytes, 0);
	assert_int_equal(weir_writer_synchronize(f->writer, 0), 0);
}

// What is retired while a grace period runs is not covered by it.
static void grace_period_under_way_does_not_cover_what_comes_later(void **state) {
	struct lab *f = *state;
	struct rte_rcu_qsbr *qsbr = f->segment->qsbr;

	rte_rcu_qsbr_thread_online(qsbr, 0);
	publish_selection(f, 0, 4);
	publish_selection(f, 0, 4);
	publish_selection(f, 0, 4);
	assert_int_equal(weir_writer_reclaim(f->writer), 2);
	publish_selection(f, 0, 4);
	assert_int_equal(weir_writer_reclaim(f->writer), 3);
	rte_rcu_qsbr_quiescent(qsbr, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	rte_rcu_qsbr_thread_offline(qsbr, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
}

static void marks_pass_after_a_quiescent_state(void **state) {
	struct lab *f = *state;
	uint64_t first, second;

	first = weir_writer_mark(f->writer);
	assert_true(weir_writer_passed(f->writer, first));
	rte_rcu_qsbr_thread_online(f->segment->qsbr, 1);
	first = weir_writer_mark(f->writer);
	assert_false(weir_writer_passed(f->writer, first));
	rte_rcu_qsbr_quiescent(f->segment->qsbr, 1);
	second = weir_writer_mark(f->writer);
	assert_true(weir_writer_passed(f->writer, first));
	assert_false(weir_writer_passed(f->writer, second));
	rte_rcu_qsbr_quiescent(f->segment->qsbr, 1);
	assert_true(weir_writer_passed(f->writer, second));
	assert_true(weir_writer_passed(f->writer, first));
}

static void memory_is_reused_and_neighbours_join(void **state) {
	struct lab *f = *state;
	void *blob[8], *large;

	for (unsigned int i = 0; i < 8; i++) {
		blob[i] = weir_writer_alloc(
			f->writer, WEIR_BLOB_SELECTION, f->segment->heap_bytes / 8);
		assert_non_null(blob[i]);
	}
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 64));
	// Order of return: alone, behind, in front, between two.
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

// A full heap gives back what is retired without being asked to.
static void allocation_reclaims_when_it_must(void **state) {
	struct lab *f = *state;
	uint64_t half = f->segment->heap_bytes / 2;

	for (unsigned int i = 0; i < 10; i++) {
		struct weir_backend_table *table =
			weir_writer_alloc(f->writer, WEIR_BLOB_BACKENDS, half);

		assert_non_null(table);
		assert_int_equal(
			weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS), table), 0);
	}
	rte_rcu_qsbr_thread_online(f->segment->qsbr, 0);
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS),
				 weir_writer_alloc(f->writer, WEIR_BLOB_BACKENDS, half)),
		0);
	errno = 0;
	assert_null(weir_writer_alloc(f->writer, WEIR_BLOB_BACKENDS, half));
	assert_int_equal(errno, ENOSPC);
	rte_rcu_qsbr_thread_offline(f->segment->qsbr, 0);
}

static void memory_is_taken_as_it_is_used(void **state) {
	struct lab *f = *state;
	void *blob;

	assert_int_equal(usage(f).heap_bytes, f->segment->heap_bytes);
	assert_true(usage(f).backed_bytes <= 4096);
	blob = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 500000);
	assert_in_range(usage(f).backed_bytes, 500000, 800000);
	weir_writer_discard(f->writer, blob);
	for (unsigned int i = 0; i < 1000; i++) {
		weir_writer_discard(
			f->writer, weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 400000));
	}
	assert_in_range(usage(f).backed_bytes, 500000, 800000);
}

// Random work, checked against the sum of what is known to be in use.
static void random_work_leaks_nothing(void **state) {
	struct lab *f = *state;
	void *held[40] = {NULL};
	uint64_t held_bytes[40] = {0};
	uint64_t seed = 11, expected = 0;

	for (unsigned int round = 0; round < 50000; round++) {
		unsigned int i = (unsigned int)(fixture_random(&seed) % 40);
		uint64_t bytes = 64 + fixture_random(&seed) % 40000;

		if (held[i] != NULL) {
			// Its owner's pattern must be there untouched.
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

// --- opening after another writer -----------------------------------------------------------

static void next_writer_keeps_what_is_published(void **state) {
	struct lab *f = *state;
	const void *before[4];
	uint64_t used;

	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_IDENTITY),
				 fixture_identity(f->writer, 3, 20)),
		0);
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS),
				 fixture_backends(f->writer, 20)),
		0);
	publish_selection(f, 0, 4);
	publish_selection(f, 5, 9);
	used = usage(f).used_bytes;
	before[0] = weir_writer_current(f->writer, fixture_root(WEIR_BLOB_IDENTITY));
	before[1] = weir_writer_current(f->writer, fixture_root(WEIR_BLOB_BACKENDS));
	before[2] = weir_writer_current(f->writer, fixture_selection_root(0));
	before[3] = weir_writer_current(f->writer, fixture_selection_root(5));
	assert_non_null(weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 5000)); // lost
	reopen(f);
	assert_ptr_equal(
		weir_writer_current(f->writer, fixture_root(WEIR_BLOB_IDENTITY)), before[0]);
	assert_ptr_equal(
		weir_writer_current(f->writer, fixture_root(WEIR_BLOB_BACKENDS)), before[1]);
	assert_ptr_equal(weir_writer_current(f->writer, fixture_selection_root(0)), before[2]);
	assert_ptr_equal(weir_writer_current(f->writer, fixture_selection_root(5)), before[3]);
	assert_int_equal(usage(f).used_bytes, used);
	assert_int_equal(usage(f).blobs, 4);
	assert_int_equal(usage(f).dropped_roots, 0);
}

// S3 and S5 together: what the dead writer had just replaced may still be read.
static void next_writer_waits_before_it_reuses_what_was_retired(void **state) {
	struct lab *f = *state;
	struct rte_rcu_qsbr *qsbr = f->segment->qsbr;
	const struct weir_selection *old;
	struct weir_selection *fresh;

	rte_rcu_qsbr_thread_online(qsbr, 0);
	publish_selection(f, 0, 4);
	old = weir_writer_current(f->writer, fixture_selection_root(0));
	publish_selection(f, 0, 4);
	reopen(f);
	assert_int_equal(usage(f).retired_bytes, old->blob.bytes);
	for (unsigned int i = 0; i < 100; i++) {
		fresh = fixture_selection(f->writer, 1, 4, 251);
		assert_true((const uint8_t *)fresh >= (const uint8_t *)old + old->blob.bytes ||
			    (const uint8_t *)fresh + fresh->blob.bytes <= (const uint8_t *)old);
	}
	rte_rcu_qsbr_quiescent(qsbr, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	fresh = fixture_selection(f->writer, 1, 4, 251);
	assert_ptr_equal(fresh, old);
	rte_rcu_qsbr_thread_offline(qsbr, 0);
}

// A withdrawn blob leaves no trace in the roots; a reader that kept its reference must not take
// the next blob in its place for it.
static void generations_go_on_over_writers(void **state) {
	struct lab *f = *state;
	weir_ref ref;

	publish_selection(f, 0, 4);
	publish_selection(f, 1, 4);
	ref = f->segment->roots->selection[1];
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(1), NULL), 0);
	reopen(f);
	assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
	publish_selection(f, 1, 4);
	assert_int_equal(f->segment->roots->selection[1] & 0xffffffff, ref & 0xffffffff);
	assert_true(f->segment->roots->selection[1] >> 32 > ref >> 32);
}

static void generation_skips_zero(void **state) {
	struct lab *f = *state;

	f->segment->roots->generation = UINT32_MAX - 1;
	reopen(f);
	publish_selection(f, 0, 4);
	assert_int_equal(f->segment->roots->selection[0] >> 32, UINT32_MAX);
	publish_selection(f, 0, 4);
	assert_int_equal(f->segment->roots->selection[0] >> 32, 1);
}

static void broken_roots_are_dropped_and_counted(void **state) {
	struct lab *f = *state;
	struct weir_roots *roots = f->segment->roots;
	weir_ref good;

	publish_selection(f, 0, 4);
	publish_selection(f, 3, 4);
	good = roots->selection[0];
	roots->selection[1] = good; // twice, and of another service
	roots->selection[2] = (1ull << 32) | 0xffffffff; // outside
	roots->services = good; // another kind
	roots->backends = roots->selection[3] + (1ull << 32); // another generation
	roots->identity = good & 0xffffffff; // generation 0
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 5);
	assert_int_equal(usage(f).blobs, 2);
	assert_int_equal(roots->selection[0], good);
	assert_int_equal(roots->selection[1], 0);
	assert_int_equal(roots->selection[2], 0);
	assert_int_equal(roots->services, 0);
	assert_int_equal(roots->backends, 0);
	assert_int_equal(roots->identity, 0);
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 0);
}

// Two whole blobs of which one lies inside the other: only one can be kept.
static void overlapping_blobs_are_not_both_kept(void **state) {
	struct lab *f = *state;
	struct weir_selection *outer = fixture_selection(f->writer, 0, 4, 4093);
	struct weir_selection *inner = (struct weir_selection *)((uint8_t *)outer + 1024);
	weir_ref ref;

	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0), outer), 0);
	memset(inner, 0, sizeof(*inner));
	inner->blob =
		(struct weir_blob){.kind = WEIR_BLOB_SELECTION, .generation = 77, .bytes = 128};
	inner->service = 1;
	inner->subsets = 1;
	inner->others_off = 64;
	inner->settings = outer->settings;
	inner->first.candidates_off = inner->first.slots_off = inner->first.rounds_off = 64;
	ref = 77ull << 32 | ((f->segment->roots->selection[0] & 0xffffffff) + 1024 / 64);
	f->segment->roots->selection[1] = ref;
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 1);
	assert_int_equal(usage(f).blobs, 1);
	assert_int_equal(f->segment->roots->selection[1], 0);
}

// Whatever an earlier process wrote there, it must not lead outside the heap.
static void nonsense_in_the_hints_is_survived(void **state) {
	struct lab *f = *state;
	const uint64_t nonsense[] = {
		0, 1, 63, 65, f->segment->heap_bytes + 64, UINT64_MAX, UINT64_MAX - 63, 1ull << 63};

	publish_selection(f, 0, 4);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		uint64_t used;

		f->segment->roots->heap_used = nonsense[i];
		f->segment->roots->generation = nonsense[i];
		reopen(f);
		assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
		used = usage(f).used_bytes;
		publish_selection(f, 0, 4);
		assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
		assert_int_equal(usage(f).used_bytes, used);
	}
}

static void every_root_can_be_withdrawn_right_after_opening(void **state) {
	struct lab *f = *state;
	void *spacer[FIXTURE_SERVICES];

	// Gaps between all blobs, so that the queue holds the most that it can.
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		publish_selection(f, i, 4);
		spacer[i] = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 64);
		assert_non_null(spacer[i]);
	}
	rte_rcu_qsbr_thread_online(f->segment->qsbr, 0);
	reopen(f);
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		assert_int_equal(
			weir_writer_publish(f->writer, fixture_selection_root(i), NULL), 0);
	}
	assert_true(weir_writer_reclaim(f->writer) >= FIXTURE_SERVICES);
	rte_rcu_qsbr_thread_offline(f->segment->qsbr, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, 0);
}

static void pid_is_there_while_open(void **state) {
	struct lab *f = *state;

	assert_int_equal(f->segment->roots->control_pid, getpid());
	weir_writer_free(f->writer);
	f->writer = NULL;
	assert_int_equal(f->segment->roots->control_pid, 0);
	weir_writer_free(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(blob_is_zeroed_aligned_and_has_its_header),
		TEST(impossible_sizes_and_kinds_are_refused),
		TEST(published_blob_is_current_and_counted),
		TEST(wrong_publication_is_refused_and_the_blob_discarded),
		TEST(replaced_blob_waits_for_every_worker),
		TEST(grace_period_under_way_does_not_cover_what_comes_later),
		TEST(marks_pass_after_a_quiescent_state),
		TEST(memory_is_reused_and_neighbours_join),
		TEST(allocation_reclaims_when_it_must),
		TEST(memory_is_taken_as_it_is_used),
		TEST(random_work_leaks_nothing),
		TEST(next_writer_keeps_what_is_published),
		TEST(next_writer_waits_before_it_reuses_what_was_retired),
		TEST(generations_go_on_over_writers),
		TEST(generation_skips_zero),
		TEST(broken_roots_are_dropped_and_counted),
		TEST(overlapping_blobs_are_not_both_kept),
		TEST(nonsense_in_the_hints_is_survived),
		TEST(every_root_can_be_withdrawn_right_after_opening),
		TEST(pid_is_there_while_open),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
