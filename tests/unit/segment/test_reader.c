// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: adoption of what is published, once per change, and refusal of what is broken.
#include "segment_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <unistd.h>

#include "reader.h"
#include "service_table.h"

struct lab {
	struct weir_segment *segment; // the control process's
	struct weir_segment *worker_segment; // the same memory, mapped again
	struct weir_writer *writer;
	struct weir_reader reader;
};

static int setup(void **state) {
	struct lab *f = calloc(1, sizeof(*f));
	char why[200];

	assert_non_null(f);
	f->worker_segment = fixture_segment(FIXTURE_HEAP_BYTES);
	assert_int_equal(
		weir_segment_attach(dup(f->worker_segment->fd), &f->segment, why, sizeof(why)), 0);
	assert_int_equal(weir_writer_open(f->segment, &f->writer), 0);
	assert_int_equal(weir_reader_init(&f->reader, f->worker_segment, 1), 0);
	*state = f;
	return 0;
}

static int teardown(void **state) {
	struct lab *f = *state;

	weir_reader_fini(&f->reader);
	weir_writer_free(f->writer);
	weir_segment_free(f->segment);
	weir_segment_free(f->worker_segment);
	free(f);
	return 0;
}

static void reader_of_no_worker_is_refused(void **state) {
	struct lab *f = *state;
	struct weir_reader reader;

	assert_int_equal(weir_reader_init(&reader, f->worker_segment, FIXTURE_WORKERS), -EINVAL);
}

static void nothing_published_gives_empty_views(void **state) {
	struct lab *f = *state;

	assert_null(weir_reader_services(&f->reader)->buckets);
	assert_null(weir_reader_backends(&f->reader)->rows);
	assert_int_equal(weir_reader_backends(&f->reader)->count, 0);
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		assert_int_equal(weir_reader_selection(&f->reader, i)->table.count, 0);
	}
	assert_int_equal(f->reader.refused, 0);
}

static void published_tables_are_adopted_and_withdrawn(void **state) {
	const struct weir_service_bind bind = {
		.address = {198, 51, 100, 10},
		.family = 4,
		.protocol = IPPROTO_TCP,
		.port_first = 80,
		.port_last = 80,
		.service = 2,
	};
	struct lab *f = *state;
	struct weir_service_table *services = NULL;

	assert_int_equal(weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS),
				 fixture_backends(f->writer, FIXTURE_BACKENDS)),
		0);
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(2),
				 fixture_selection(f->writer, 2, 7, 251)),
		0);
	assert_int_equal(weir_service_table_build(f->writer, &bind, 1, 9, &services), 0);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), services), 0);
	assert_int_equal(weir_service_lookup(weir_reader_services(&f->reader), bind.address, 4,
				 IPPROTO_TCP, 80),
		2);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.slot_count, 251);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 7);
	assert_int_equal(weir_reader_backends(&f->reader)->count, FIXTURE_BACKENDS);
	assert_int_equal(weir_reader_backends(&f->reader)->rows[299].mtu, 299);
	assert_int_equal(f->reader.refused, 0);
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), NULL);
	weir_writer_publish(f->writer, fixture_selection_root(2), NULL);
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS), NULL);
	assert_null(weir_reader_services(&f->reader)->buckets);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 0);
	assert_null(weir_reader_backends(&f->reader)->rows);
	assert_int_equal(f->reader.refused, 0);
}

// The view is what was checked: what the blob's header says later does not matter.
static void header_is_read_once(void **state) {
	struct lab *f = *state;
	struct weir_backend_table *table = fixture_backends(f->writer, 10);

	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_BACKENDS), table);
	assert_int_equal(weir_reader_backends(&f->reader)->count, 10);
	table->rows = 1000000;
	table->rows_off = UINT64_MAX;
	assert_int_equal(weir_reader_backends(&f->reader)->count, 10);
	assert_int_equal(f->reader.refused, 0);
}

static void broken_table_is_refused_once_and_the_next_one_adopted(void **state) {
	struct lab *f = *state;
	struct weir_selection *selection = fixture_selection(f->writer, 0, 4, 251);

	selection->first.slots = 10000;
	weir_writer_publish(f->writer, fixture_selection_root(0), selection);
	for (unsigned int i = 0; i < 10; i++) {
		assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
		assert_int_equal(weir_selection_choose(weir_reader_selection(&f->reader, 0), 5),
			WEIR_BACKEND_NONE);
	}
	assert_int_equal(f->reader.refused, 1);
	weir_writer_publish(
		f->writer, fixture_selection_root(0), fixture_selection(f->writer, 0, 4, 251));
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 4);
	assert_int_equal(f->reader.refused, 1);
}

// Each worker has the subset with its number, modulo how many there are.
static void worker_adopts_its_own_subset(void **state) {
	struct lab *f = *state;

	for (uint32_t subsets = 1; subsets <= FIXTURE_WORKERS; subsets++) {
		weir_writer_publish(f->writer, fixture_selection_root(0),
			fixture_subsets(f->writer, 0, 20, subsets, 251));
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			const struct weir_selection_view *view;
			struct weir_reader reader;

			assert_int_equal(weir_reader_init(&reader, f->worker_segment, worker), 0);
			view = weir_reader_selection(&reader, 0);
			assert_int_equal(reader.refused, 0);
			assert_int_equal(view->table.slot_count, 251);
			for (uint32_t i = 0; i < view->table.count; i++) {
				uint16_t id = view->table.candidates[i].id;

				assert_true(id == 19 || id % subsets == worker % subsets);
			}
			// 20 backends, and the last one in those that it was not dealt to as well.
			assert_true(view->table.count >= 20 / subsets &&
				    view->table.count <= 20 / subsets + 2);
			weir_reader_fini(&reader);
		}
	}
}

// What is wrong with one worker's subset is nothing to the others.
static void broken_subset_is_refused_by_its_worker_alone(void **state) {
	struct lab *f = *state;
	struct weir_selection *selection = fixture_subsets(f->writer, 0, 9, 3, 251);
	struct weir_selection_subset *others = (void *)(selection + 1);
	struct weir_reader third;

	others[0].slots_off = UINT32_MAX - 1;
	weir_writer_publish(f->writer, fixture_selection_root(0), selection);
	assert_int_equal(weir_reader_init(&third, f->worker_segment, 2), 0);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
	assert_int_equal(f->reader.refused, 1);
	assert_int_equal(weir_reader_selection(&third, 0)->table.count, 3);
	assert_int_equal(third.refused, 0);
	weir_reader_fini(&third);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void) {
	const struct CMUnitTest tests[] = {
		TEST(reader_of_no_worker_is_refused),
		TEST(nothing_published_gives_empty_views),
		TEST(published_tables_are_adopted_and_withdrawn),
		TEST(worker_adopts_its_own_subset),
		TEST(broken_subset_is_refused_by_its_worker_alone),
		TEST(header_is_read_once),
		TEST(broken_table_is_refused_once_and_the_next_one_adopted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
