// SPDX-License-Identifier: BSD-3-Clause
//
// The update log. The reader processes entries in order, a limited number per iteration. It loads
// the rows of a selection before the selection, and the selection of a service before the service.
// The reader does a full scan in three cases:
//   - The log was overrun.
//   - An entry was overwritten while the reader read it.
//   - A control process exited after a store, before it wrote the log entry for the store.
#include "reader_lab.h"

#include <netinet/in.h>
#include <stdlib.h>

#include "service_table.h"

#define WORKER 0
#define TURNS_MAX 1000

static bool adopt_row(void *context, uint16_t backend, const struct weir_backend_row *row) {
	struct lab *f = context;

	f->rows[backend] = *row;
	f->adopted++;
	return true;
}

static int setup(void **state) {
	return lab_create(state, 8u << 20, WORKER, adopt_row);
}

static void publish_row(struct lab *f, uint16_t backend, uint16_t n) {
	const struct weir_backend_row row = fixture_row(n);

	assert_true(weir_writer_publish_row(f->writer, backend, &row));
}

static void close_row(struct lab *f, uint16_t backend) {
	struct weir_backend_row row = fixture_row(1);

	row.flags |= WEIR_BACKEND_CLOSED;
	assert_true(weir_writer_publish_row(f->writer, backend, &row));
}

static void withdraw_row(struct lab *f, uint16_t backend) {
	const struct weir_backend_row none = {0};

	assert_true(weir_writer_publish_row(f->writer, backend, &none));
}

// Publishes a selection with the backends first .. first + n - 1.
static void publish_selection(struct lab *f, uint16_t service, uint16_t first, uint32_t n) {
	struct weir_selection_member members[FIXTURE_BACKENDS];
	struct weir_selection *selection = NULL;

	for (uint16_t i = 0; i < n; i++) {
		members[i] = (struct weir_selection_member){
			.identity = i + 1u, .id = (uint16_t)(first + i), .weight = 100};
	}
	assert_int_equal(fixture_build(f->writer, service, members, n, 251, &selection), 0);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_selection_root(service), selection), 0);
}

// Publishes a service table for the first n services, in which service i has port 1000 + i.
static void publish_services(struct lab *f, uint16_t n) {
	struct weir_service_bind binds[FIXTURE_SERVICES];
	struct weir_service_table *table = NULL;

	for (uint16_t i = 0; i < n; i++) {
		binds[i] = (struct weir_service_bind){.address = {198, 51, 100, 10},
			.family = 4,
			.protocol = IPPROTO_TCP,
			.port_first = (uint16_t)(1000 + i),
			.port_last = (uint16_t)(1000 + i),
			.service = i};
	}
	assert_int_equal(weir_service_table_build(f->writer, binds, n, 1, &table), 0);
	assert_int_equal(
		weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), table), 0);
}

// Checks the order of loading (layout.h). No loaded table refers to a table or row that the reader
// has not loaded. No loaded selection has only closed backends.
static void check_order(const struct lab *f) {
	const uint8_t vip[16] = {198, 51, 100, 10};

	for (uint16_t service = 0; service < FIXTURE_SERVICES; service++) {
		const struct weir_policy_table *table =
			&weir_reader_selection(&f->reader, service)->table;
		uint32_t closed = 0;

		for (uint32_t i = 0; i < table->count; i++) {
			uint8_t flags = f->rows[table->candidates[i].id].flags;

			closed += (flags & WEIR_BACKEND_CLOSED) != 0;
			if (flags == 0) {
				fail_msg("service %u selects backend %u, which has no row", service,
					table->candidates[i].id);
			}
		}
		if (table->count > 0 && closed == table->count) {
			fail_msg("service %u selects closed backends alone", service);
		}
		if (weir_service_lookup(weir_reader_services(&f->reader), vip, 4, IPPROTO_TCP,
			    (uint16_t)(1000 + service)) == service &&
			table->count == 0) {
			fail_msg("service %u is there, its selection is not", service);
		}
	}
}

// Runs iterations until no changes are left. Checks that each iteration processes a limited number
// of changes, and leaves the tables in a valid order.
static unsigned int follow(struct lab *f) {
	unsigned int turns = 0;

	while (f->reader.seen != f->segment->news->updates) {
		unsigned int before = f->adopted;

		weir_reader_update(&f->reader);
		assert_true(f->adopted - before <= WEIR_READER_STEPS);
		check_order(f);
		assert_true(++turns < TURNS_MAX);
	}
	return turns;
}

static void check_rows(const struct lab *f) {
	for (uint16_t i = 0; i < FIXTURE_BACKENDS; i++) {
		struct weir_backend_row row;

		assert_true(weir_reader_row(f->segment, i, &row));
		assert_memory_equal(&f->rows[i], &row, sizeof(row));
	}
}

TEST_EACH(setup, teardown);

TEST(turn_adopts_a_bounded_number_of_changes) {
	struct lab *f = *state;

	for (uint16_t i = 0; i < 10 * WEIR_READER_STEPS; i++) {
		publish_row(f, i % FIXTURE_BACKENDS, (uint16_t)(1 + i));
	}
	weir_reader_update(&f->reader);
	assert_in_range(f->adopted, 1, WEIR_READER_STEPS);
	weir_reader_quiescent(&f->reader); // no report was requested
	assert_in_range(f->adopted, 1, WEIR_READER_STEPS);
	assert_true(follow(f) >= 9);
	assert_int_equal(f->adopted, 10 * WEIR_READER_STEPS); // each row was loaded once
	check_rows(f);
}

TEST(report_waits_until_earlier_changes_are_adopted) {
	struct lab *f = *state;
	unsigned int turns = 0;
	uint64_t mark;

	for (uint16_t i = 0; i < 200; i++) {
		publish_row(f, i, 7);
	}
	mark = weir_writer_mark(f->writer);
	for (uint16_t i = 200; i < FIXTURE_BACKENDS; i++) { // published after the mark
		publish_row(f, i, 7);
	}
	while (!weir_writer_passed(f->writer, mark)) {
		assert_true(++turns < TURNS_MAX);
		weir_reader_quiescent(&f->reader);
		assert_true(!weir_writer_passed(f->writer, mark) || f->adopted >= 200);
	}
	assert_true(turns >= 200 / WEIR_READER_STEPS);
}

// The reader has a backlog. Before each iteration, there are a new token and almost as many new
// changes as an iteration processes. Each grace period must still end.
TEST(tokens_faster_than_reports_are_all_reported) {
	struct lab *f = *state;
	uint64_t marks[40];

	for (uint16_t i = 0; i < 8 * WEIR_READER_STEPS; i++) {
		publish_row(f, i, 1);
	}
	for (unsigned int i = 0; i < 40; i++) {
		for (uint16_t backend = 0; backend < WEIR_READER_STEPS - 2; backend++) {
			publish_row(f, backend, (uint16_t)(100 * i + backend + 2));
		}
		marks[i] = weir_writer_mark(f->writer);
		weir_reader_quiescent(&f->reader);
		assert_true(i < 20 || weir_writer_passed(f->writer, marks[i - 20]));
	}
}

TEST(log_wraps_many_times) {
	struct lab *f = *state;

	for (uint32_t i = 0; i < 3 * WEIR_UPDATES + 5; i++) {
		uint16_t backend = (uint16_t)(i % 97);

		publish_row(f, backend, (uint16_t)(1 + i % 65535));
		assert_int_equal(follow(f), 1);
		assert_int_equal(f->rows[backend].mtu, (uint16_t)(1 + i % 65535));
	}
	assert_int_equal(f->adopted, 3 * WEIR_UPDATES + 5); // no full scan has happened
}

// The counter of log entries can wrap.
TEST(count_of_entries_wraps) {
	struct lab *f = *state;

	weir_reader_offline(&f->reader);
	f->control->news->updates = UINT64_MAX - 2;
	weir_reader_online(&f->reader);
	f->adopted = 0;
	for (uint16_t i = 1; i < 10; i++) {
		publish_row(f, 3, i);
		assert_int_equal(follow(f), 1);
		assert_int_equal(f->rows[3].mtu, i);
		assert_int_equal(f->adopted, i);
	}
	assert_true(f->control->news->updates < 10);
}

TEST(overrun_log_causes_a_full_scan) {
	const uint32_t entries[] = {WEIR_UPDATES - 1, WEIR_UPDATES, WEIR_UPDATES + 1,
		2 * WEIR_UPDATES, 3 * WEIR_UPDATES + 17};
	struct lab *f = *state;

	for (size_t k = 0; k < sizeof(entries) / sizeof(entries[0]); k++) {
		unsigned int turns;

		publish_row(f, 250, (uint16_t)(1 + k)); // the first entry, which may be overwritten
		publish_selection(f, 1, 250, 1);
		publish_services(f, 2);
		publish_selection(f, 0, 250, 1);
		for (uint32_t i = 4; i < entries[k]; i++) {
			publish_row(f, (uint16_t)(i % 200), (uint16_t)(1 + (i + k) % 65535));
		}
		turns = follow(f);
		assert_true(turns >= FIXTURE_BACKENDS / WEIR_READER_STEPS);
		assert_int_equal(f->rows[250].mtu, 1 + k);
		assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 1);
		assert_int_equal(weir_reader_selection(&f->reader, 1)->table.count, 1);
		check_rows(f);
	}
}

// Control overwrites the oldest entry before it counts the new entry. Therefore the oldest entry of
// a full log may already contain a new change.
TEST(entry_that_is_being_overwritten_is_not_used) {
	struct lab *f = *state;
	uint64_t first = f->segment->news->updates;

	publish_row(f, 7, 77);
	for (uint32_t i = 1; i < WEIR_UPDATES; i++) {
		publish_row(f, 8, (uint16_t)i);
	}
	assert_int_equal(f->segment->news->updates - first, WEIR_UPDATES);
	f->control->updates->update[first % WEIR_UPDATES] = weir_update(WEIR_UPDATE_ROW, 9);
	follow(f);
	assert_int_equal(f->rows[7].mtu, 77);
	check_rows(f);
}

// A control process can exit after a store and before it writes the log entry for this store.
TEST(next_writer_causes_a_full_scan) {
	const struct weir_backend_row row = fixture_row(55);
	struct lab *f = *state;
	struct weir_row_pair *pair = &f->control->rows[123];
	weir_ref ref;

	publish_row(f, 0, 1);
	publish_selection(f, 2, 0, 1);
	ref = f->control->roots->selection[2];
	assert_int_equal(weir_writer_publish(f->writer, fixture_selection_root(2), NULL), 0);
	follow(f);
	pair->row[(pair->version + 1) % 2] = row;
	pair->version++;
	f->control->roots->selection[2] = ref;
	weir_reader_settle(&f->reader);
	assert_int_equal(f->rows[123].mtu, 0);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 0);
	weir_writer_free(f->writer);
	assert_int_equal(weir_writer_open(f->control, &f->writer), 0);
	follow(f);
	assert_int_equal(f->rows[123].mtu, 55);
	assert_int_equal(weir_reader_selection(&f->reader, 2)->table.count, 1);
	check_rows(f);
}

// Workers have counters for each backend. A row is not loaded before its counters have memory, and
// later publications also wait.
TEST(row_waits_for_the_memory_of_its_counters) {
	struct lab *f = *state;

	f->segment->counted_backends = 100;
	publish_row(f, 99, 1);
	publish_row(f, 100, 1);
	publish_row(f, 98, 1);
	publish_selection(f, 0, 100, 1);
	for (unsigned int i = 0; i < 10; i++) {
		weir_reader_update(&f->reader);
		weir_reader_settle(&f->reader); // returns although the row waits
		check_order(f);
	}
	assert_int_equal(f->rows[99].mtu, 1);
	assert_int_equal(f->rows[100].mtu, 0);
	assert_int_equal(f->rows[98].mtu, 0);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
	assert_int_equal(weir_segment_follow(f->segment), 0);
	follow(f);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 1);
	check_rows(f);
	// A full scan also waits for the memory of the counters.
	weir_reader_offline(&f->reader);
	memset(f->rows, 0, sizeof(f->rows));
	f->segment->counted_backends = 100;
	weir_reader_online(&f->reader);
	check_order(f);
	assert_int_equal(f->rows[99].mtu, 1);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 0);
	assert_int_equal(weir_segment_follow(f->segment), 0);
	follow(f);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 1);
	check_rows(f);
}

// --- order of tables ------------------------------------------------------------------------

// A selection is published twice. When the reader processes the log entry of the first selection,
// the reference already refers to the second selection, whose rows have later log entries.
TEST(selection_waits_for_the_rows_of_a_newer_one) {
	struct lab *f = *state;

	publish_row(f, 0, 1);
	publish_selection(f, 0, 0, 1);
	for (uint16_t i = 1; i < 100; i++) {
		publish_row(f, i, 1);
	}
	publish_selection(f, 0, 0, 100);
	follow(f);
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.count, 100);
}

TEST(service_waits_for_its_selection) {
	struct lab *f = *state;

	publish_row(f, 0, 1);
	publish_selection(f, 0, 0, 1);
	publish_services(f, 1);
	for (uint16_t i = 1; i < 100; i++) {
		publish_row(f, i, 1);
	}
	publish_selection(f, 1, 0, 100);
	publish_services(f, 2);
	follow(f);
	assert_int_equal(weir_reader_selection(&f->reader, 1)->table.count, 100);
}

// A hundred backends replace other backends. In later rounds this happens during a full scan.
TEST(backends_close_after_the_selection_that_replaces_them) {
	struct lab *f = *state;
	uint64_t mark;

	for (uint16_t round = 0; round < 4; round++) {
		const uint16_t first = round % 2 * 100, before = 100 - first;

		for (uint32_t i = 0; round >= 2 && i <= WEIR_UPDATES; i++) {
			publish_row(f, 299, (uint16_t)(1 + i));
		}
		for (uint16_t i = 0; i < 100; i++) {
			publish_row(f, first + i, 1);
		}
		publish_selection(f, 0, first, 100);
		for (uint16_t i = 0; i < 100; i++) {
			close_row(f, before + i);
		}
		mark = weir_writer_mark(f->writer);
		while (!weir_writer_passed(f->writer, mark)) {
			weir_reader_quiescent(&f->reader);
			check_order(f);
		}
		check_rows(f);
	}
	assert_int_equal(weir_reader_selection(&f->reader, 0)->table.candidates[0].id, 100);
}

// A full scan keeps the order of loading, also for tables that are published during the scan.
TEST(full_scan_keeps_the_order) {
	struct lab *f = *state;
	uint16_t next = 0;

	for (uint32_t i = 0; i <= WEIR_UPDATES; i++) {
		publish_row(f, 299, (uint16_t)(1 + i));
	}
	while (f->reader.seen != f->segment->news->updates) {
		weir_reader_update(&f->reader);
		check_order(f);
		if (next < FIXTURE_SERVICES) {
			publish_row(f, next, 1);
			publish_selection(f, next, next, 1);
			publish_services(f, ++next);
		}
	}
	assert_int_equal(next, FIXTURE_SERVICES);
	for (uint16_t service = 0; service < FIXTURE_SERVICES; service++) {
		assert_int_equal(weir_reader_selection(&f->reader, service)->table.count, 1);
	}
}

// Random publications and withdrawals, in the order that layout.h requires. Iterations of the
// reader happen at random times in between.
TEST(random_publications_are_adopted_in_order) {
	struct lab *f = *state;
	uint64_t seed = 3;

	for (unsigned int round = 0; round < 400; round++) {
		uint16_t first = (uint16_t)(fixture_random(&seed) % 200);
		uint32_t n = 1 + (uint32_t)(fixture_random(&seed) % 60);
		uint16_t service = (uint16_t)(fixture_random(&seed) % FIXTURE_SERVICES);
		bool lazy = round % 16 != 0; // false: the reader first loads all changes

		if (!lazy) {
			// Before rows are removed, withdraw all tables that use them, and wait for
			// a grace period.
			weir_writer_publish(f->writer, fixture_root(WEIR_BLOB_SERVICES), NULL);
			for (uint16_t i = 0; i < FIXTURE_SERVICES; i++) {
				weir_writer_publish(f->writer, fixture_selection_root(i), NULL);
			}
			while (weir_writer_reclaim(f->writer) > 0) {
				weir_reader_quiescent(&f->reader);
				check_order(f);
			}
			for (uint16_t i = 0; i < FIXTURE_BACKENDS; i += 2) {
				if (f->control->rows[i]
						.row[f->control->rows[i].version % 2]
						.flags != 0) {
					withdraw_row(f, i);
				}
			}
		}
		for (uint16_t i = 0; i < n; i++) {
			publish_row(f, (uint16_t)(first + i), (uint16_t)(round + 1));
		}
		publish_selection(f, service, first, n);
		for (uint64_t turns = fixture_random(&seed) % 4; turns > 0; turns--) {
			weir_reader_update(&f->reader);
			check_order(f);
			weir_writer_reclaim(f->writer);
			weir_reader_quiescent(&f->reader);
			check_order(f);
		}
	}
	follow(f);
	check_rows(f);
}
