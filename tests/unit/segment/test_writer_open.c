// SPDX-License-Identifier: BSD-3-Clause
//
// Writer: opening a writer after the previous writer has ended without clean-up, as after a
// SIGKILL.
#include "writer_lab.h"

#include <unistd.h>

#include "service_table.h"

TEST_EACH(setup, teardown);

TEST(next_writer_keeps_published_tables) {
	const struct weir_root roots[] = {fixture_root(WEIR_BLOB_SERVICES),
		fixture_selection_root(0), fixture_selection_root(5)};
	const struct weir_backend_row row = fixture_row(9);
	struct weir_service_table *table = NULL;
	struct lab *f = *state;
	const void *before[3];
	uint64_t used;

	assert_int_equal(weir_writer_reserve(f->writer, 6, 20), 0);
	assert_true(weir_writer_publish_row(f->writer, 19, &row));
	publish_selection(f, 0, 4);
	publish_selection(f, 5, 9);
	assert_int_equal(weir_service_table_build(f->writer, NULL, 0, 1, &table), 0);
	assert_int_equal(weir_writer_publish(f->writer, roots[0], table), 0);
	used = usage(f).used_bytes;
	for (unsigned int i = 0; i < 3; i++) {
		before[i] = weir_writer_current(f->writer, roots[i]);
		assert_non_null(before[i]);
	}
	// This writer ends before it publishes the blob, so the next writer must free the memory.
	assert_non_null(weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 5000));
	reopen(f);
	for (unsigned int i = 0; i < 3; i++) {
		assert_ptr_equal(weir_writer_current(f->writer, roots[i]), before[i]);
	}
	assert_int_equal(usage(f).used_bytes, used);
	assert_int_equal(usage(f).blobs, 3);
	assert_int_equal(usage(f).dropped_roots, 0);
	// Existing rows are not published again.
	assert_false(weir_writer_publish_row(f->writer, 19, &row));
	assert_int_equal(f->segment->notes->backend_ids, 20);
}

// Guarantees S3 and S5 (layout.h): workers may still read blobs that the previous writer replaced
// just before it ended.
TEST(next_writer_waits_before_it_reuses_retired_memory) {
	struct lab *f = *state;
	const struct weir_selection *old;
	struct weir_selection *fresh;

	online(f, 0);
	publish_selection(f, 0, 4);
	old = weir_writer_current(f->writer, fixture_selection_root(0));
	publish_selection(f, 0, 4);
	reopen(f);
	assert_int_equal(usage(f).retired_bytes, blob_bytes(old));
	for (unsigned int i = 0; i < 100; i++) {
		fresh = fixture_selection(f->writer, 1, 4, 251);
		assert_true((const uint8_t *)fresh >= (const uint8_t *)old + blob_bytes(old) ||
			    (const uint8_t *)fresh + blob_bytes(fresh) <= (const uint8_t *)old);
	}
	report(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	fresh = fixture_selection(f->writer, 1, 4, 251);
	assert_ptr_equal(fresh, old);
	offline(f, 0);
}

// After a blob is withdrawn, the roots do not contain its generation. A reader that still has a
// reference to the blob must not accept the next blob at the same offset.
TEST(generations_continue_over_writers) {
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

// A reference contains the lower half of a generation, and the blob contains the complete
// generation. Generations do not wrap.
TEST(generations_continue_past_32_bits) {
	struct lab *f = *state;
	struct weir_reader reader;
	weir_ref first;

	publish_selection(f, 0, 4);
	first = f->segment->roots->selection[0];
	f->control->notes->generation = (1ull << 32) - 3;
	reopen(f);
	assert_int_equal(weir_reader_init(&reader, f->segment, 0, NULL, NULL), 0);
	weir_reader_online(&reader);
	for (uint64_t generation = (1ull << 32) - 2; generation < (1ull << 32) + 3; generation++) {
		const struct weir_selection *selection;

		publish_selection(f, 0, 4);
		selection = weir_writer_current(f->writer, fixture_selection_root(0));
		assert_true(selection->blob.generation == generation);
		assert_true(f->segment->notes->generation == generation);
		assert_int_equal(f->segment->roots->selection[0] >> 32, (uint32_t)generation);
		weir_reader_update(&reader);
		assert_true(weir_reader_selection(&reader, 0)->generation == generation);
		assert_int_equal(weir_reader_selection(&reader, 0)->table.count, 4);
		weir_writer_reclaim(f->writer);
		weir_reader_quiescent(&reader);
	}
	assert_int_equal(reader.refusals.selections, 0);
	// A later generation has the same lower half as the first generation, and its blob is at
	// the same offset. The reader must distinguish the two blobs, and no generation is reused.
	f->control->notes->generation = (1ull << 32) + (first >> 32) - 1;
	publish_selection(f, 0, 4);
	reopen(f);
	publish_selection(f, 0, 4);
	weir_reader_settle(&reader);
	assert_true(weir_reader_selection(&reader, 0)->generation > 1ull << 32);
	weir_reader_fini(&reader);
}

// A corrupt note must not cause generations to be reused.
TEST(generations_continue_from_the_published_ones) {
	struct lab *f = *state;
	const struct weir_selection *selection;
	uint64_t last;

	publish_selection(f, 0, 4);
	publish_selection(f, 1, 4);
	selection = weir_writer_current(f->writer, fixture_selection_root(1));
	last = selection->blob.generation;
	f->control->notes->generation = 0;
	reopen(f);
	publish_selection(f, 2, 4);
	selection = weir_writer_current(f->writer, fixture_selection_root(2));
	assert_true(selection->blob.generation > last);
}

// The writer does not change broken references, because workers refuse them and keep the previous
// table.
TEST(broken_roots_are_counted_and_kept) {
	struct lab *f = *state;
	struct weir_roots *roots = f->control->roots;
	struct weir_writer_usage u;
	weir_ref good, broken[3];

	publish_selection(f, 0, 4);
	publish_selection(f, 3, 4);
	good = roots->selection[0];
	broken[0] = roots->selection[1] = good; // a blob of another service, used twice
	broken[1] = roots->selection[2] = (1ull << 32) | 0xffffffff; // outside of the heap
	broken[2] = roots->services = good; // a blob of another kind
	roots->selection[4] = roots->selection[3] + (1ull << 32); // another generation
	roots->selection[5] = good & 0xffffffff; // generation 0
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 5);
	assert_int_equal(usage(f).blobs, 2);
	assert_int_equal(roots->selection[0], good);
	assert_int_equal(roots->selection[1], broken[0]);
	assert_int_equal(roots->selection[2], broken[1]);
	assert_int_equal(roots->services, broken[2]);
	assert_null(weir_writer_current(f->writer, fixture_selection_root(1)));
	for (uint16_t service = 1; service < 6; service++) {
		publish_selection(f, service, 4);
	}
	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), NULL), 0);
	assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
	u = usage(f);
	assert_int_equal(u.blobs, 6);
	assert_int_equal(u.used_bytes,
		6 * blob_bytes(weir_writer_current(f->writer, fixture_selection_root(0))));
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 0);
}

// Two valid blobs, one inside the other: only one of them can be kept.
TEST(overlapping_blobs_are_not_both_kept) {
	struct lab *f = *state;
	struct weir_selection *outer = fixture_selection(f->writer, 0, 4, 4093);
	struct weir_selection *inner = (struct weir_selection *)((uint8_t *)outer + 1024);
	weir_ref ref;

	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(0), outer), 0);
	memset(inner, 0, sizeof(*inner));
	inner->blob = (struct weir_blob){.kind = WEIR_BLOB_SELECTION, .generation = 77, .lines = 2};
	inner->service = 1;
	inner->subsets = 1;
	inner->others_off = 64;
	inner->settings = outer->settings;
	inner->first.candidates_off = inner->first.slots_off = inner->first.rounds_off = 64;
	ref = 77ull << 32 | ((f->segment->roots->selection[0] & 0xffffffff) + 1024 / 64);
	f->control->roots->selection[1] = ref;
	reopen(f);
	assert_int_equal(usage(f).dropped_roots, 1);
	assert_int_equal(usage(f).blobs, 1);
	assert_null(weir_writer_current(f->writer, fixture_selection_root(1)));
}

// Whatever values an earlier process has written to the notes, the writer must not access memory
// outside the heap.
TEST(invalid_notes_do_no_harm) {
	struct lab *f = *state;
	const uint64_t nonsense[] = {
		0, 1, 63, 65, f->segment->heap_bytes + 64, UINT64_MAX, UINT64_MAX - 63, 1ull << 63};

	publish_selection(f, 0, 4);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		uint64_t used;

		f->control->notes->heap_used = nonsense[i];
		f->control->notes->generation = nonsense[i];
		f->control->notes->service_ids = (uint32_t)nonsense[i];
		f->control->notes->backend_ids = (uint32_t)(nonsense[i] >> 32);
		f->control->news->token = nonsense[i];
		f->control->news->updates = nonsense[i];
		reopen(f);
		assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
		used = usage(f).used_bytes;
		publish_selection(f, 0, 4);
		assert_int_equal(weir_writer_synchronize(f->writer, 1000), 0);
		assert_int_equal(usage(f).used_bytes, used);
	}
}

TEST(every_root_can_be_withdrawn_right_after_opening) {
	struct lab *f = *state;
	void *spacer[FIXTURE_SERVICES];

	// Allocate a spacer after each selection, but do not publish it. The next writer finds
	// these gaps between the published selections, and retires them. The selections are
	// withdrawn below and retired as well, so the queue of retired blobs then has its maximum
	// length.
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		publish_selection(f, i, 4);
		spacer[i] = weir_writer_alloc(f->writer, WEIR_BLOB_SELECTION, 64);
		assert_non_null(spacer[i]);
	}
	online(f, 0);
	reopen(f);
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		assert_int_equal(
			weir_writer_publish(f->writer, fixture_selection_root(i), NULL), 0);
	}
	assert_true(weir_writer_reclaim(f->writer) >= FIXTURE_SERVICES);
	offline(f, 0);
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(usage(f).used_bytes, 0);
}

// Each new writer skips some positions of the update log, but continues to count publications from
// the number of the previous writer.
TEST(positions_of_every_writer_have_a_number_of_publications) {
	struct lab *f = *state;

	for (unsigned int writers = 1; writers <= 3; writers++) {
		const uint64_t *updates = &f->segment->news->updates;

		publish_selection(f, 0, 4);
		publish_selection(f, 1, 4);
		assert_int_equal(weir_writer_publications(f->segment, *updates), 2ull * writers);
		assert_int_equal(
			weir_writer_publications(f->segment, *updates - 1), 2ull * writers - 1);
		assert_int_equal(weir_writer_publications(f->segment, 1), 0);
		reopen(f);
	}
}

TEST(pid_is_set_while_open) {
	struct lab *f = *state;

	assert_int_equal(f->segment->notes->control_pid, getpid());
	weir_writer_free(f->writer);
	f->writer = NULL;
	assert_int_equal(f->segment->notes->control_pid, 0);
	weir_writer_free(NULL);
}
