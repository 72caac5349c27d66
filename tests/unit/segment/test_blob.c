// SPDX-License-Identifier: BSD-3-Clause
//
// Blobs: each field of each header is set to wrong values, one at a time. Each REFUSED line is a
// table that must be refused. The unchanged table must be accepted.
#include "segment_lab.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "blob.h"
#include "service_table.h"

struct lab {
	struct weir_segment *segment; // the dataplane's mapping, for the checks
	struct weir_segment *control; // control's mapping of the same memory
	struct weir_writer *writer;
	struct weir_service_table *services;
	struct weir_selection *selection;
};

static int setup(void **state) {
	const struct weir_service_bind binds[2] = {
		{.address = {10}, .family = 4, .protocol = IPPROTO_TCP, .port_last = 65535},
		{.address = {11}, .family = 4, .protocol = IPPROTO_TCP, .port_last = 65535},
	};
	struct lab *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	f->segment = fixture_segment(FIXTURE_HEAP_BYTES);
	f->control = fixture_control(f->segment);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	assert_int_equal(weir_service_table_build(f->writer, binds, 2, 1, &f->services), 0);
	f->selection = fixture_selection(f->writer, 2, 5, 251);
	weir_writer_publish(f->writer, fixture_selection_root(2), f->selection);
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), f->services);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_writer_free(f->writer);
	weir_segment_free(f->control);
	weir_segment_free(f->segment);
	free(f);
	return 0;
}

static bool services_pass(const struct lab *f) {
	struct weir_blob_extent extent;
	struct weir_services_view view;

	return weir_blob_services(f->segment, f->segment->roots->services, &extent, &view);
}

static bool selection_passes(const struct lab *f) {
	struct weir_blob_extent extent;
	struct weir_selection_view view;

	return weir_blob_selection(
		f->segment, 2, f->segment->roots->selection[2], 0, &extent, &view);
}

// Writes a wrong value to a field, checks that the table is refused, and restores the value.
#define REFUSED(passes, field, wrong) \
	do { \
		__typeof__(field) right = (field); \
		assert_true(passes(f)); \
		(field) = (__typeof__(field))(wrong); \
		if (passes(f)) { \
			fail_msg("accepted: " #field " = " #wrong); \
		} \
		(field) = right; \
		assert_true(passes(f)); \
	} while (0)

TEST_EACH(setup, teardown);

TEST(broken_blob_headers_are_refused) {
	struct lab *f = *state;

	REFUSED(services_pass, f->services->blob.kind, WEIR_BLOB_SELECTION);
	REFUSED(services_pass, f->services->blob.kind, 0);
	REFUSED(services_pass, f->services->blob.kind, UINT32_MAX);
	REFUSED(services_pass, f->services->blob.generation, 0);
	REFUSED(services_pass, f->services->blob.generation, f->services->blob.generation + 1);
	REFUSED(services_pass, f->services->blob.generation, f->services->blob.generation << 32);
	REFUSED(services_pass, f->services->blob.lines, 0);
	REFUSED(services_pass, f->services->blob.lines, f->services->blob.lines - 1);
	REFUSED(services_pass, f->services->blob.lines, f->control->heap_bytes / 64 + 1);
	REFUSED(services_pass, f->services->blob.lines, UINT32_MAX);
	REFUSED(services_pass, f->services->blob.lines, 1);
	REFUSED(selection_passes, f->selection->blob.lines, 1);
	REFUSED(selection_passes, f->selection->blob.kind, WEIR_BLOB_SERVICES);
}

// Only the lower half of a generation is in the reference; the upper half may have any value.
TEST(generations_beyond_32_bits_are_accepted) {
	struct weir_blob_extent extent;
	struct weir_services_view view;
	struct lab *f = *state;

	f->services->blob.generation += 7ull << 32;
	assert_true(weir_blob_services(f->segment, f->segment->roots->services, &extent, &view));
	assert_int_equal(view.generation, f->services->blob.generation);
	assert_true(view.generation > UINT32_MAX);
}

TEST(references_outside_the_heap_are_refused) {
	struct lab *f = *state;
	struct weir_roots *roots = f->control->roots;
	uint64_t heap = f->segment->heap_off / 64;
	uint64_t end = (f->segment->heap_off + f->segment->heap_bytes) / 64;
	weir_ref generation = roots->services >> 32 << 32;

	REFUSED(services_pass, roots->services, 0);
	REFUSED(services_pass, roots->services, generation);
	REFUSED(services_pass, roots->services, generation | (heap - 1));
	REFUSED(services_pass, roots->services, generation | end);
	REFUSED(services_pass, roots->services, generation | 0xffffffff);
	REFUSED(services_pass, roots->services, roots->services & 0xffffffff);
	REFUSED(services_pass, roots->services, roots->services + 1);
	REFUSED(services_pass, roots->services, roots->selection[2]);
}

// A blob may end exactly at the end of the heap, but not 64 bytes after it.
TEST(blob_at_the_end_of_the_heap) {
	struct lab *f = *state;
	struct weir_writer_usage usage;
	struct weir_service_table *table;
	uint64_t bytes;

	weir_writer_usage(f->writer, &usage);
	bytes = usage.heap_bytes - usage.used_bytes;
	table = weir_writer_alloc(f->writer, WEIR_BLOB_SERVICES, bytes);
	assert_non_null(table);
	table->buckets = 2;
	table->buckets_off = bytes - 2 * sizeof(struct weir_bind);
	table->ranges_off = bytes;
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table);
	assert_true(services_pass(f));
	REFUSED(services_pass, table->blob.lines, table->blob.lines + 1);
	REFUSED(services_pass, table->buckets_off, table->buckets_off + 32);
	REFUSED(services_pass, table->ranges, 1);
}

TEST(broken_service_tables_are_refused) {
	struct lab *f = *state;
	struct weir_service_table *t = f->services;

	REFUSED(services_pass, t->buckets, 0);
	REFUSED(services_pass, t->buckets, 3);
	REFUSED(services_pass, t->buckets, t->buckets * 2);
	REFUSED(services_pass, t->buckets, 0x80000000);
	REFUSED(services_pass, t->buckets, UINT32_MAX);
	REFUSED(services_pass, t->buckets_off, 0);
	REFUSED(services_pass, t->buckets_off, 32);
	REFUSED(services_pass, t->buckets_off, 72);
	REFUSED(services_pass, t->buckets_off, t->blob.lines * 64);
	REFUSED(services_pass, t->buckets_off, UINT64_MAX - 31);
	REFUSED(services_pass, t->ranges, t->ranges + 8);
	REFUSED(services_pass, t->ranges, UINT32_MAX);
	REFUSED(services_pass, t->ranges_off, 0);
	REFUSED(services_pass, t->ranges_off, t->ranges_off + 4);
	REFUSED(services_pass, t->ranges_off, t->blob.lines * 64 + 8);
	REFUSED(services_pass, t->ranges_off, UINT64_MAX - 7);
}

TEST(broken_selections_are_refused) {
	struct lab *f = *state;
	struct weir_selection *s = f->selection;

	REFUSED(selection_passes, s->service, 3);
	REFUSED(selection_passes, s->first.candidates, 0);
	REFUSED(selection_passes, s->first.candidates, 100);
	REFUSED(selection_passes, s->first.candidates, WEIR_BACKENDS_MAX + 1);
	REFUSED(selection_passes, s->first.candidates, UINT32_MAX);
	REFUSED(selection_passes, s->first.rounds, 1);
	REFUSED(selection_passes, s->first.rounds_off, 0);
	REFUSED(selection_passes, s->first.rounds_off, UINT32_MAX - 7);
	REFUSED(selection_passes, s->settings.policy, WEIR_POLICY_COUNT);
	REFUSED(selection_passes, s->settings.policy, WEIR_POLICY_FAIR_SHARE);
	REFUSED(selection_passes, s->settings.needs, 0);
	REFUSED(selection_passes, s->settings.when_exhausted, 2);
	REFUSED(selection_passes, s->settings.rounds, WEIR_ROUNDS_BITS + 1);
	REFUSED(selection_passes, s->settings.error_window_ms, 0);
	REFUSED(selection_passes, s->first.slots, 0);
	REFUSED(selection_passes, s->first.slots, 300);
	REFUSED(selection_passes, s->first.slots, WEIR_TABLE_SLOTS_MAX + 1);
	REFUSED(selection_passes, s->first.slots, UINT32_MAX);
	REFUSED(selection_passes, s->first.candidates_off, 0);
	REFUSED(selection_passes, s->first.candidates_off, 68);
	REFUSED(selection_passes, s->first.candidates_off, s->blob.lines * 64);
	REFUSED(selection_passes, s->first.candidates_off, UINT32_MAX - 7);
	REFUSED(selection_passes, s->first.slots_off, 2);
	REFUSED(selection_passes, s->first.slots_off, s->first.slots_off + 1);
	REFUSED(selection_passes, s->first.slots_off, s->blob.lines * 64);
	REFUSED(selection_passes, s->first.slots_off, UINT32_MAX - 1);
}

static bool second_subset_passes(const struct lab *f) {
	struct weir_blob_extent extent;
	struct weir_selection_view view;

	return weir_blob_selection(
		f->segment, 2, f->segment->roots->selection[2], 1, &extent, &view);
}

TEST(broken_subsets_are_refused) {
	struct lab *f = *state;
	struct weir_selection *s = fixture_subsets(f->writer, 2, 20, 3, 251);
	struct weir_selection_subset *second = (void *)(s + 1);

	weir_writer_publish(f->writer, fixture_selection_root(2), s);
	assert_int_equal(weir_blob_subsets(f->segment, 2, f->segment->roots->selection[2]), 3);
	REFUSED(second_subset_passes, s->subsets, 0);
	REFUSED(second_subset_passes, s->subsets, WEIR_WORKERS_MAX + 1);
	REFUSED(second_subset_passes, s->subsets, UINT16_MAX);
	REFUSED(selection_passes, s->subsets, 0);
	REFUSED(second_subset_passes, s->others_off, 0);
	REFUSED(second_subset_passes, s->others_off, 68);
	REFUSED(second_subset_passes, s->others_off, s->blob.lines * 64);
	REFUSED(second_subset_passes, s->others_off, UINT32_MAX - 7);
	REFUSED(second_subset_passes, second->candidates, 0);
	REFUSED(second_subset_passes, second->candidates, UINT32_MAX);
	REFUSED(second_subset_passes, second->candidates_off, UINT32_MAX - 7);
	REFUSED(second_subset_passes, second->slots, 0);
	REFUSED(second_subset_passes, second->slots, UINT32_MAX);
	REFUSED(second_subset_passes, second->slots_off, s->blob.lines * 64);
	REFUSED(second_subset_passes, second->rounds, 1);
	REFUSED(second_subset_passes, second->rounds_off, 4);
	// The descriptions of the other subsets have no effect on the first subset.
	second->slots_off = UINT32_MAX;
	assert_true(selection_passes(f));
	s->subsets = 0;
	assert_int_equal(weir_blob_subsets(f->segment, 2, f->segment->roots->selection[2]), 0);
	assert_int_equal(weir_blob_subsets(f->segment, 2, 0), 0);
}
