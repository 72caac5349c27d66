// SPDX-License-Identifier: BSD-3-Clause
//
// Reader: loads published tables, and refuses invalid tables, so that the last good table stays in
// use. test_updates.c tests the update log.
#include "reader_lab.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>

#include "grace.h"
#include "service_table.h"

#define WORKER 1
#define REFUSED_MTU 666

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct lab *f = context;

	if (row->mtu == REFUSED_MTU) {
		return false;
	}
	f->rows[backend] = *row;
	return true;
}

static int setup(void **state) {
	return lab_create(state, FIXTURE_HEAP_BYTES, WORKER, adopt_row);
}

static void publish(struct lab *f, uint16_t service, struct weir_selection *selection) {
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_selection_root(service), selection), 0);
}

// Returns a selection of n backends with too many slots for its size.
static struct weir_selection *broken_selection(struct lab *f, uint16_t service, uint32_t n) {
	struct weir_selection *selection = fixture_selection(f->writer, service, n, 251);

	selection->first.slots = 10000;
	return selection;
}

static struct weir_service_table *service_table(struct lab *f) {
	const struct weir_service_bind bind = {
		.address = {198, 51, 100, 10},
		.family = 4,
		.protocol = IPPROTO_TCP,
		.port_first = 80,
		.port_last = 80,
		.service = 2,
	};
	struct weir_service_table *table = NULL;

	assert_int_equal(weir_service_table_build(f->writer, &bind, 1, 9, &table), 0);
	return table;
}

// Returns the refusals of the worker, from control's mapping.
static const struct weir_refusals *refusals(const struct lab *f) {
	return &f->control->refusals[WORKER];
}

// Returns whether the worker reports a grace period that starts now.
static bool reports(struct lab *f) {
	uint64_t mark = weir_writer_mark(f->writer);

	for (unsigned int i = 0; i < 1000; i++) {
		weir_reader_update(&f->reader);
		weir_reader_quiescent(&f->reader);
	}
	return weir_writer_passed(f->writer, mark);
}

// Returns whether all replaced blobs are freed when the worker reports.
static bool frees(struct lab *f) {
	return weir_writer_reclaim(f->writer) > 0 && reports(f) &&
	       weir_writer_reclaim(f->writer) == 0;
}

TEST_EACH(setup, teardown);

TEST(reader_without_a_worker_is_refused) {
	struct lab *f = *state;
	struct weir_reader reader;

	assert_int_equal(
		weir_reader_init(&reader, f->segment, FIXTURE_WORKERS, NULL, NULL), -EINVAL);
}

TEST(nothing_published_gives_empty_views) {
	struct lab *f = *state;
	struct weir_backend_row row = fixture_row(9), zero = {0};

	assert_null(weir_reader_services(&f->reader)->buckets);
	for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
		assert_int_equal(weir_reader_selection(&f->reader, i)->table.count, 0);
	}
	assert_true(weir_reader_row(f->segment, FIXTURE_BACKENDS - 1, &row));
	assert_memory_equal(&row, &zero, sizeof(row));
	assert_int_equal(f->reader.refusals.refused, 0);
	assert_true(reports(f));
}

TEST(published_tables_are_adopted_and_withdrawn) {
	const uint8_t address[16] = {198, 51, 100, 10};
	const struct weir_backend_row row = fixture_row(299), zero = {0};
	struct lab *f = *state;
	uint64_t generation;

	assert_true(weir_writer_publish_row(f->writer, 299, &row));
	publish(f, 2, fixture_selection(f->writer, 2, 7, 251));
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), service_table(f)),
		0);
	generation = f->control->notes->generation;
	weir_reader_update(&f->reader);
	assert_int_equal(
		weir_service_lookup(weir_reader_services(&f->reader), address, 4, IPPROTO_TCP, 80),
		2);
	assert_int_equal(weir_reader_services(&f->reader)->generation, generation);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.slot_count, 251);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 7);
	assert_memory_equal(&f->rows[299], &row, sizeof(row));
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), NULL);
	weir_writer_publish(f->writer, fixture_selection_root(2), NULL);
	assert_true(weir_writer_publish_row(f->writer, 299, &zero));
	weir_reader_update(&f->reader);
	assert_null(weir_reader_services(&f->reader)->buckets);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 0);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->generation, 0);
	assert_memory_equal(&f->rows[299], &zero, sizeof(zero));
	assert_int_equal(refusals(f)->refused + refusals(f)->services + refusals(f)->selections +
				 refusals(f)->rows,
		0);
}

// The view contains copies of the checked values, so later changes of the blob's header have no
// effect.
TEST(header_is_read_once) {
	struct lab *f = *state;
	struct weir_selection *selection = fixture_selection(f->writer, 0, 10, 251);

	publish(f, 0, selection);
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 10);
	selection->first.candidates = 60000;
	selection->first.slots = UINT32_MAX;
	selection->first.slots_off = UINT32_MAX;
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 10);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.slot_count, 251);
	assert_int_equal(refusals(f)->selections, 0);
}

// Each worker has the subset with its number, modulo the number of subsets.
TEST(worker_adopts_its_own_subset) {
	struct lab *f = *state;

	for (uint32_t subsets = 1; subsets <= FIXTURE_WORKERS; subsets++) {
		publish(f, 0, fixture_subsets(f->writer, 0, 20, subsets, 251));
		for (uint32_t worker = 0; worker < FIXTURE_WORKERS; worker++) {
			const struct weir_selection_view *view;
			struct weir_reader reader;

			assert_int_equal(
				weir_reader_init(&reader, f->segment, worker, NULL, NULL), 0);
			weir_reader_settle(&reader);
			view = weir_reader_selection(&reader, 0);
			assert_int_equal(reader.refusals.refused, 0);
			assert_int_equal(view->table.slot_count, 251);
			for (uint32_t i = 0; i < view->table.count; i++) {
				uint16_t id = view->table.candidates[i].id;

				assert_true(id == 19 || id % subsets == worker % subsets);
			}
			// 20 backends; the last one is in all subsets.
			assert_true(view->table.count >= 20 / subsets &&
				    view->table.count <= 20 / subsets + 2);
			weir_reader_fini(&reader);
		}
	}
}

// Only a selection with which the service loses its UDP flows sets the flag.
TEST(selection_that_ends_udp_flows_is_noted) {
	static const bool by_datagram[] = {false, true, true, false, false, true};
	struct lab *f = *state;

	for (size_t i = 0; i < sizeof(by_datagram) / sizeof(by_datagram[0]); i++) {
		struct weir_selection *selection = fixture_selection(f->writer, 1, 3, 251);

		selection->settings.rounds = by_datagram[i] ? WEIR_UDP_DATAGRAM : 0;
		publish(f, 1, selection);
		weir_reader_update(&f->reader);
		assert_int_equal(
			f->reader.udp_ended, i > 0 && by_datagram[i] && !by_datagram[i - 1]);
		f->reader.udp_ended = false;
	}
}

// --- refusals -------------------------------------------------------------------------------

// An error in the subset of one worker does not affect other workers.
TEST(invalid_subset_is_refused_by_its_worker_only) {
	struct lab *f = *state;
	struct weir_selection *selection = fixture_subsets(f->writer, 0, 9, 3, 251);
	struct weir_selection_subset *others = (void *)(selection + 1);
	struct weir_reader third;

	others[0].slots_off = UINT32_MAX - 1;
	publish(f, 0, selection);
	assert_int_equal(weir_reader_init(&third, f->segment, 2, NULL, NULL), 0);
	weir_reader_settle(&third);
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
	assert_int_equal(refusals(f)->refused, 1);
	assert_int_equal(weir_reader_selection(&third, 0)->table.count, 3);
	assert_int_equal(f->control->refusals[2].refused, 0);
	assert_int_equal(f->control->refusals[2].selections, 0);
	weir_reader_fini(&third);
}

TEST(refused_selection_leaves_the_last_good_one_in_use) {
	struct lab *f = *state;
	uint64_t generation;

	publish(f, 0, fixture_selection(f->writer, 0, 7, 251));
	weir_reader_update(&f->reader);
	generation = weir_reader_selection(&f->reader, 0)->generation;
	assert_true(reports(f));
	publish(f, 0, broken_selection(f, 0, 4));
	for (unsigned int i = 0; i < 10; i++) {
		weir_reader_update(&f->reader);
		assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 7);
		assert_int_equal(weir_reader_selection(&f->reader, 0)->generation, generation);
		assert_true(weir_selection_choose(weir_reader_selection(&f->reader, 0), 5) < 7);
	}
	assert_int_equal(refusals(f)->selections, 1);
	assert_int_equal(refusals(f)->refused, 1);
	assert_int_equal(refusals(f)->change, weir_update(WEIR_UPDATE_SELECTION, 0));
	assert_int_equal(refusals(f)->ref, f->control->roots->selection[0]);
	// The previous table must not be freed. Therefore the worker does not report before the
	// refused table is replaced.
	assert_false(reports(f));
	assert_int_equal(weir_writer_synchronize(f->writer, 20), -ETIMEDOUT);
	publish(f, 0, fixture_selection(f->writer, 0, 5, 251));
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 5);
	assert_int_equal(refusals(f)->refused, 0);
	assert_int_equal(refusals(f)->selections, 1);
	assert_true(reports(f));
}

TEST(refused_service_table_leaves_the_last_good_one_in_use) {
	const uint8_t address[16] = {198, 51, 100, 10};
	struct lab *f = *state;
	struct weir_service_table *broken;

	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), service_table(f));
	weir_reader_update(&f->reader);
	broken = service_table(f);
	broken->ranges_off = UINT64_MAX - 7;
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), broken);
	weir_reader_update(&f->reader);
	assert_int_equal(
		weir_service_lookup(weir_reader_services(&f->reader), address, 4, IPPROTO_TCP, 80),
		2);
	assert_int_equal(refusals(f)->services, 1);
	assert_int_equal(refusals(f)->refused, 1);
	assert_int_equal(refusals(f)->change, weir_update(WEIR_UPDATE_SERVICES, 0));
	assert_int_equal(refusals(f)->ref, f->control->roots->services);
	assert_false(reports(f));
	weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), NULL);
	weir_reader_update(&f->reader);
	assert_null(weir_reader_services(&f->reader)->buckets);
	assert_int_equal(refusals(f)->refused, 0);
	assert_true(reports(f));
}

// Control publishes the previous table again, without changes.
TEST(previous_table_is_restored) {
	const struct weir_root root = fixture_selection_root(3);
	struct lab *f = *state;
	struct weir_writer_usage usage;
	const void *former;
	weir_ref good, bad;

	publish(f, 3, fixture_selection(f->writer, 3, 7, 251));
	weir_reader_update(&f->reader);
	assert_true(reports(f));
	former = weir_writer_current(f->writer, root);
	good = f->control->roots->selection[3];
	publish(f, 3, broken_selection(f, 3, 4));
	bad = f->control->roots->selection[3];
	weir_reader_update(&f->reader);
	// Grace periods that start while worker 1 refuses the new table do not free the old table.
	// Worker 2 has reported this grace period, and uses the new table.
	weir_grace_online(f->segment, 2);
	assert_int_equal(weir_writer_reclaim(f->writer), 1);
	weir_grace_report(f->segment, 2, weir_grace_token(f->segment));
	assert_false(reports(f));
	assert_int_equal(weir_writer_restore(f->writer, root, good), -ENOENT);
	assert_int_equal(
		weir_writer_restore(f->writer, fixture_selection_root(FIXTURE_SERVICES), bad),
		-ENOENT);
	assert_int_equal(weir_writer_restore(f->writer, root, refusals(f)->ref), 0);
	assert_int_equal(f->control->roots->selection[3], good);
	assert_ptr_equal(weir_writer_current(f->writer, root), former);
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 3)->table.count, 7);
	assert_int_equal(refusals(f)->refused, 0);
	weir_reader_quiescent(&f->reader);
	assert_int_equal(weir_writer_reclaim(f->writer), 1); // worker 2 may still use it
	weir_grace_offline(f->segment, 2);
	assert_true(reports(f));
	assert_int_equal(weir_writer_reclaim(f->writer), 0);
	assert_int_equal(weir_writer_restore(f->writer, root, good), -ENOENT);
	// The restored table is later freed like any other table.
	publish(f, 3, NULL);
	assert_true(frees(f));
	weir_writer_usage(f->writer, &usage);
	assert_int_equal(usage.used_bytes, 0);
	assert_int_equal(usage.retired_bytes, 0);
}

// There is no previous table that could be restored.
TEST(refused_first_table_cannot_be_restored) {
	struct lab *f = *state;

	publish(f, 3, broken_selection(f, 3, 4));
	weir_reader_update(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 3)->table.count, 0);
	assert_int_equal(
		weir_selection_choose(weir_reader_selection(&f->reader, 3), 5), WEIR_BACKEND_NONE);
	assert_int_equal(
		weir_writer_restore(f->writer, fixture_selection_root(3), refusals(f)->ref),
		-ENOENT);
	assert_false(reports(f));
	publish(f, 3, NULL);
	assert_true(reports(f));
}

// If a worker refuses several tables, its `refusals` names one of these tables. When this table is
// replaced, `refusals` names another refused table.
TEST(each_refused_table_is_shown_until_it_is_replaced) {
	struct lab *f = *state;

	for (uint16_t service = 0; service < 4; service++) {
		publish(f, service, fixture_selection(f->writer, service, 7, 251));
	}
	weir_reader_update(&f->reader);
	assert_true(reports(f));
	for (uint16_t service = 0; service < 4; service++) {
		publish(f, service, broken_selection(f, service, 4));
	}
	weir_reader_update(&f->reader);
	assert_int_equal(refusals(f)->refused, 4);
	for (unsigned int left = 4; left > 0; left--) {
		uint16_t service = (uint16_t)refusals(f)->change;

		assert_int_equal(refusals(f)->refused, left);
		assert_int_equal(refusals(f)->change, weir_update(WEIR_UPDATE_SELECTION, service));
		assert_int_equal(refusals(f)->ref, f->control->roots->selection[service]);
		assert_int_equal(weir_writer_restore(f->writer, fixture_selection_root(service),
					 refusals(f)->ref),
			0);
		assert_int_equal(reports(f), left == 1);
	}
	for (uint16_t service = 0; service < 4; service++) {
		assert_int_equal(weir_reader_selection(&f->reader, service)->table.count, 7);
	}
	assert_int_equal(refusals(f)->refused, 0);
}

// The reader has a copy of each row. Therefore no old memory is kept for a refused row, and the row
// delays no report of a grace period.
TEST(refused_row_keeps_the_previous_copy) {
	const struct weir_backend_row good = fixture_row(7), bad = fixture_row(REFUSED_MTU);
	struct lab *f = *state;

	weir_writer_publish_row(f->writer, 5, &good);
	weir_reader_update(&f->reader);
	weir_writer_publish_row(f->writer, 5, &bad);
	weir_reader_update(&f->reader);
	assert_memory_equal(&f->rows[5], &good, sizeof(good));
	assert_int_equal(refusals(f)->rows, 1);
	assert_int_equal(refusals(f)->refused, 0);
	assert_int_equal(refusals(f)->change, weir_update(WEIR_UPDATE_ROW, 5));
	assert_int_equal(refusals(f)->ref, 0);
	assert_true(reports(f));
}

// The memory of old tables is not kept for an offline worker. Therefore a worker that is online
// again has no previous table.
TEST(reader_that_returns_starts_without_tables) {
	struct lab *f = *state;

	publish(f, 0, fixture_selection(f->writer, 0, 7, 251));
	publish(f, 1, fixture_selection(f->writer, 1, 7, 251));
	weir_reader_update(&f->reader);
	weir_reader_offline(&f->reader);
	publish(f, 0, broken_selection(f, 0, 4));
	assert_int_equal(weir_writer_synchronize(f->writer, 0), 0);
	weir_reader_online(&f->reader);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
	assert_int_equal(weir_reader_selection(&f->reader, 1)->table.count, 7);
	assert_int_equal(refusals(f)->refused, 1);
	assert_int_equal(refusals(f)->selections, 1);
	assert_false(reports(f));
	weir_reader_offline(&f->reader);
	publish(f, 0, NULL);
	weir_reader_online(&f->reader);
	assert_int_equal(refusals(f)->refused, 0);
	assert_true(reports(f));
}
