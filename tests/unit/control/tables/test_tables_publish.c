// SPDX-License-Identifier: BSD-3-Clause
//
// publish.c: in which order tables are published and withdrawn, and what happens if there is not
// enough memory.
#include "tables_lab.h"

#include <errno.h>
#include <string.h>

static uint32_t kind_of(const struct lab *lab, uint64_t update) {
	return lab->segment->updates->update[update % WEIR_UPDATES] >> 16;
}

// Workers process the entries of the update log in order. A publication first has entries for rows,
// then for selections, then for the table of services. The identities are stored before all of
// these entries.
TEST(publication_is_ordered_from_rows_to_services) {
	static const uint32_t order[] = {
		[WEIR_UPDATE_ROW] = 0, [WEIR_UPDATE_SELECTION] = 1, [WEIR_UPDATE_SERVICES] = 2};
	struct weir_config *config = lab_config(2, 2), *more = lab_config(3, 3);
	struct lab lab;

	lab_open(&lab, NULL);
	for (int i = 0; i < 2; i++) {
		uint64_t from = lab.segment->news->updates;
		uint32_t n[3] = {0};

		lab_apply(&lab, i == 0 ? config : more);
		for (uint64_t at = from; at < lab.segment->news->updates; at++) {
			assert_true(at == from ||
				    order[kind_of(&lab, at - 1)] <= order[kind_of(&lab, at)]);
			n[order[kind_of(&lab, at)]]++;
		}
		assert_int_equal(n[0], i == 0 ? 4 : 5);
		assert_int_equal(n[1], i == 0 ? 2 : 3);
		assert_int_equal(n[2], 1);
	}
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(more);
}

// A worker may still use the old selection when it loads new rows. So the row of a removed backend
// is withdrawn only when every worker has released the old selection.
TEST(row_is_removed_a_grace_period_after_the_selection) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config_copy(config);
	struct lab lab;

	lab_remove_backend(less, 0, 0);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_apply(&lab, less);
	for (int i = 0; i < 3; i++) {
		weir_tables_tick(lab.tables);
		assert_int_equal(lab_slots(&lab, 0, 0), 0);
		assert_true(lab_row(&lab, 0).flags & WEIR_BACKEND_PRESENT);
	}
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	assert_int_equal(lab_row(&lab, 0).flags, 0);
	// The id stays reserved until the worker has processed the removal of the row.
	for (int i = 0; i < 3; i++) {
		weir_tables_tick(lab.tables);
		assert_true(lab_state(&lab, 0).leaving);
	}
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	assert_int_equal(
		weir_tables_backend(lab.tables, 0, &(struct weir_backend_state){0}), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// The parts of a removed service are withdrawn in this order: lookup, selection, rows, ids.
TEST(selection_is_removed_a_grace_period_after_the_service_table) {
	struct weir_config *config = lab_config(2, 1), *less = lab_config_copy(config);
	const struct weir_roots *roots;
	struct lab lab;

	lab_remove_service(less, 1);
	lab_open(&lab, NULL);
	roots = lab.segment->roots;
	lab_apply(&lab, config);
	lab_apply(&lab, less);
	weir_tables_tick(lab.tables);
	assert_int_not_equal(roots->selection[1], 0);
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	assert_int_equal(roots->selection[1], 0);
	weir_tables_tick(lab.tables);
	assert_true(lab_row(&lab, 1).flags & WEIR_BACKEND_PRESENT);
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	assert_int_equal(lab_row(&lab, 1).flags, 0);
	weir_tables_tick(lab.tables);
	assert_non_null(weir_tables_service_name(lab.tables, 1));
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	weir_tables_tick(lab.tables);
	assert_null(weir_tables_service_name(lab.tables, 1));
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// The row of a backend determines how its flows are handled, even if the backend gets no new flows.
// The row is published before the selection. A change that affects no table publishes nothing.
TEST(row_has_the_handling_of_flows) {
	struct weir_config *config = lab_config(1, 4), *less = lab_config_copy(config);
	const uint8_t closed = WEIR_BACKEND_CLOSED, down = closed | WEIR_BACKEND_DOWN;
	const uint8_t states = (uint8_t)~(WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED);
	struct lab lab;

	lab_remove_backend(less, 0, 3);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(lab_row(&lab, 0).flags & states, 0);
	weir_tables_set_health(lab.tables, 0, WEIR_HEALTH_REFUSING);
	assert_int_equal(lab_publish(&lab), 2);
	assert_int_equal(lab_row(&lab, 0).flags & states, down);
	assert_int_equal(lab_slots(&lab, 0, 0), 0);
	// this change affects only how flows are handled
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_MAINTENANCE);
	assert_int_equal(lab_publish(&lab), 0);
	weir_tables_set_health(lab.tables, 0, WEIR_HEALTH_HEALTHY);
	assert_int_equal(lab_publish(&lab), 0);
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_DRAIN);
	assert_int_equal(lab_publish(&lab), 1);
	assert_int_equal(lab_row(&lab, 0).flags & states, closed);
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_READY);
	assert_int_equal(lab_publish(&lab), 2);
	assert_int_equal(lab_row(&lab, 0).flags & states, 0);
	weir_tables_set_weight(lab.tables, 1, 0);
	assert_int_equal(lab_publish(&lab), 2);
	assert_int_equal(lab_row(&lab, 1).flags & states, closed);
	weir_tables_set_weight(lab.tables, 1, 100);
	lab_set_flows(&lab, 0, 3, 1);
	lab_apply(&lab, less); // b1 is removed
	assert_int_equal(lab_row(&lab, 1).flags & states, 0);
	assert_int_equal(lab_row(&lab, 3).flags & states, down);
	lab_settle(&lab);
	assert_int_equal(lab_row(&lab, 3).flags & states, down);
	lab_apply(&lab, config); // b1 is added again
	assert_int_equal(lab_row(&lab, 3).flags & states, 0);
	lab_set_flows(&lab, 0, 3, 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// If all backends of a service fail their checks, panic mode uses them as before, and no flow
// moves. The flows of a removed service cannot move either, because no other backends exist. But
// the rows of the removed service get the flags of backends that are down.
TEST(panic_and_removed_services_are_distinguished) {
	struct weir_config *config = lab_config(2, 2), *less = lab_config_copy(config);
	const uint8_t down = WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN;
	struct lab lab;

	lab_remove_service(less, 1);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_health(lab.tables, 0, WEIR_HEALTH_REFUSING);
	lab_publish(&lab);
	assert_int_equal(lab_row(&lab, 0).flags & down, down);
	weir_tables_set_health(lab.tables, 1, WEIR_HEALTH_REFUSING);
	// in panic mode, the row of the other backend changes, too
	assert_int_equal(lab_publish(&lab), 2);
	assert_int_equal(lab_row(&lab, 0).flags & down, 0);
	assert_int_equal(lab_row(&lab, 1).flags & down, 0);
	lab_set_flows(&lab, 0, 2, 1);
	lab_apply(&lab, less);
	assert_int_equal(lab_row(&lab, 2).flags & down, down);
	lab_restart(&lab); // a new control process publishes the same tables
	lab_apply(&lab, less);
	assert_int_equal(lab_row(&lab, 0).flags & down, 0);
	assert_int_equal(lab_row(&lab, 2).flags & down, down);
	lab_set_flows(&lab, 0, 2, 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// on_backend_down is stored only in rows of backends that are down. A removed service keeps its
// setting, even after another control process has started.
TEST(row_has_the_handling_of_tcp_flows) {
	static const struct {
		enum weir_config_on_backend_down what;
		uint8_t flags;
	} cases[] = {
		{WEIR_ON_BACKEND_DOWN_KEEP, 0},
		{WEIR_ON_BACKEND_DOWN_REHASH, WEIR_BACKEND_REHASH},
		{WEIR_ON_BACKEND_DOWN_RESET, WEIR_BACKEND_RESET},
	};
	const uint8_t states = (uint8_t)~(WEIR_BACKEND_PRESENT | WEIR_BACKEND_RESOLVED);
	const uint8_t down = WEIR_BACKEND_CLOSED | WEIR_BACKEND_DOWN;
	struct weir_config *config = lab_config(2, 3), *less;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 0, WEIR_ADMIN_MAINTENANCE);
	weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_DRAIN);
	lab_publish(&lab);
	for (unsigned int i = 0; i < 3; i++) {
		struct weir_config *next = lab_config_copy(config);

		next->services[0].on_backend_down = cases[i].what;
		next->services[1].on_backend_down = cases[i].what;
		lab_apply(&lab, next);
		assert_int_equal(lab_row(&lab, 0).flags & states, down | cases[i].flags);
		assert_int_equal(lab_row(&lab, 1).flags & states, WEIR_BACKEND_CLOSED);
		assert_int_equal(lab_row(&lab, 2).flags & states, 0);
		lab_config_free(config);
		config = next;
	}
	less = lab_config_copy(config);
	lab_remove_service(less, 1);
	lab_set_flows(&lab, 0, 3, 1);
	lab_apply(&lab, less);
	assert_int_equal(lab_row(&lab, 3).flags & states, down | WEIR_BACKEND_RESET);
	lab_restart(&lab);
	lab_apply(&lab, less);
	assert_int_equal(lab_row(&lab, 0).flags & states, down | WEIR_BACKEND_RESET);
	assert_int_equal(lab_row(&lab, 3).flags & states, down | WEIR_BACKEND_RESET);
	lab_set_flows(&lab, 0, 3, 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(less);
}

// A worker is stalled, so the heap fills up and publications fail. The changes stay pending, and
// control publishes them as soon as the worker reports again.
TEST(full_heap_keeps_the_marks_until_memory_is_free) {
	struct lab_room room = {.heap_bytes = 4 << 20};
	struct weir_config *config = lab_config(1, 2);
	uint32_t weight = 100, published = 100;
	struct lab_published before;
	struct lab lab;

	config->services[0].table_size = 65537;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	for (;;) {
		lab_published(&lab, &before);
		weir_tables_set_weight(lab.tables, 0, ++weight);
		if (weir_tables_publish(lab.tables) < 0) {
			break;
		}
		published = weight;
		assert_true(weight < 1000);
	}
	assert_true(published > 105);
	assert_int_equal(weir_tables_publish(lab.tables), -EBUSY);
	lab_assert_published(&lab, &before);
	assert_int_equal(lab.segment->identity_backends[0].runtime_weight, published);
	weir_tables_tick(lab.tables);
	lab_assert_published(&lab, &before);
	lab_quiescent(&lab);
	weir_tables_tick(lab.tables);
	weir_tables_tick(lab.tables);
	assert_int_not_equal(lab.segment->roots->selection[0], before.selection[0]);
	assert_int_equal(lab.segment->identity_backends[0].runtime_weight, weight);
	assert_in_range(lab_slots(&lab, 0, 0), 65537ull * weight / (weight + 100) - 2,
		65537ull * weight / (weight + 100) + 2);
	assert_int_equal(weir_tables_publish(lab.tables), 0);
	lab_close(&lab);
	lab_config_free(config);
}

static bool is_closed(struct lab *lab, uint16_t id) {
	return (lab_row(lab, id).flags & WEIR_BACKEND_CLOSED) != 0;
}

static void set_health(struct lab *lab, uint16_t id, enum weir_health_state health) {
	assert_int_equal(weir_tables_set_health(lab->tables, id, health), 0);
}

// The publication of a row needs no heap memory. When a stalled worker prevents the publication of
// a new selection, the row of a failing backend is still published, and workers skip the backend.
// This also works for a backend of another service.
TEST(full_heap_does_not_prevent_closing_backends) {
	struct lab_room room = {.heap_bytes = 4 << 20};
	struct weir_config *config = lab_config(2, 4);
	uint32_t weight = 100;
	struct lab lab;

	config->services[0].table_size = 65537;
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	do {
		assert_true(weight < 1000);
		weir_tables_set_weight(lab.tables, 0, ++weight);
	} while (weir_tables_publish(lab.tables) >= 0);
	set_health(&lab, 1, WEIR_HEALTH_REFUSING);
	set_health(&lab, 5, WEIR_HEALTH_REFUSING);
	assert_int_equal(weir_tables_publish(lab.tables), -EBUSY);
	assert_true(is_closed(&lab, 1));
	assert_true(is_closed(&lab, 5));
	// Most backends of the selection must stay open, because otherwise the selection could
	// become empty.
	set_health(&lab, 1, WEIR_HEALTH_HEALTHY);
	for (uint16_t id = 4; id < 7; id++) {
		assert_int_equal(weir_tables_set_admin(lab.tables, id, WEIR_ADMIN_MAINTENANCE), 0);
	}
	assert_int_equal(weir_tables_publish(lab.tables), -EBUSY);
	assert_false(is_closed(&lab, 1));
	assert_false(is_closed(&lab, 4));
	assert_false(is_closed(&lab, 7));
	lab_settle(&lab);
	assert_true(is_closed(&lab, 4));
	assert_int_equal(lab_selection(&lab, 1)->table.count, 1);
	lab_close(&lab);
	lab_config_free(config);
}

// Each worker has its own subset. One backend of each subset must stay open. Without this rule, all
// backends of one subset could be closed although most backends of the service are open.
TEST(full_heap_keeps_a_backend_of_each_subset_open) {
	struct lab_room room = {.heap_bytes = 4 << 20};
	struct weir_config *config = lab_config(2, 8);
	struct weir_policy_table subset;
	uint32_t weight = 100, open = 0;
	struct lab lab;

	config->services[0].table_size = 65537;
	config->services[1].subset =
		(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
			.size = 2,
			.client = WEIR_SUBSET_CLIENT_WORKER};
	lab_open(&lab, &room);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	do {
		assert_true(weight < 1000);
		weir_tables_set_weight(lab.tables, 0, ++weight);
	} while (weir_tables_publish(lab.tables) >= 0);
	subset = lab_table_of(&lab, 1, 0);
	assert_int_equal(subset.count, 2);
	for (uint32_t i = 0; i < subset.count; i++) {
		assert_int_equal(weir_tables_set_admin(
					 lab.tables, subset.candidates[i].id, WEIR_ADMIN_DRAIN),
			0);
	}
	assert_int_equal(weir_tables_publish(lab.tables), -EBUSY);
	for (uint32_t i = 0; i < subset.count; i++) {
		open += !is_closed(&lab, subset.candidates[i].id);
	}
	assert_true(open > 0);
	lab_settle(&lab);
	for (uint32_t i = 0; i < subset.count; i++) {
		assert_true(is_closed(&lab, subset.candidates[i].id));
	}
	lab_close(&lab);
	lab_config_free(config);
}

TEST(several_changes_are_one_publication) {
	struct weir_config *config = lab_config(4, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_DRAIN);
	weir_tables_set_weight(lab.tables, 2, 5);
	weir_tables_set_weight(lab.tables, 5, 5);
	// two selections, and the row of the drained backend
	assert_int_equal(lab_publish(&lab), 3);
	// A change that is reversed before the publication publishes nothing.
	weir_tables_set_admin(lab.tables, 9, WEIR_ADMIN_DRAIN);
	weir_tables_set_admin(lab.tables, 9, WEIR_ADMIN_READY);
	assert_int_equal(lab_publish(&lab), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// Without a dataplane, the ids of removed backends are free at once.
TEST(unbound_tables_free_ids_at_once) {
	struct weir_config *config = lab_config(1, 3), *less = lab_config_copy(config);
	struct weir_config *more = lab_config(1, 4);
	struct weir_tables *tables;
	char why[256];

	lab_remove_backend(less, 0, 1);
	assert_int_equal(weir_tables_open(NULL, &tables), 0);
	assert_int_equal(weir_tables_publish(tables), 0);
	assert_int_equal(weir_tables_apply(tables, config, why, sizeof(why)), 0);
	assert_int_equal(weir_tables_apply(tables, less, why, sizeof(why)), 0);
	assert_int_equal(weir_tables_backend(tables, 1, &(struct weir_backend_state){0}), -ENOENT);
	assert_null(weir_tables_segment(tables));
	more->segment.max_backends = 3;
	assert_int_equal(weir_tables_apply(tables, more, why, sizeof(why)), -ENOSPC);
	weir_tables_free(tables);
	lab_config_free(more);
	lab_config_free(config);
	lab_config_free(less);
}

static uint64_t sum_of(const struct weir_subset_part *part, uint32_t n) {
	uint64_t sum = 0;

	for (uint32_t i = 0; i < n; i++) {
		sum += part[i].parts;
	}
	return sum;
}

// Check the shares of the backends in each worker's subset, as published.
TEST(parts_of_one_subset) {
	static const enum weir_policy policies[] = {
		WEIR_POLICY_MAGLEV, WEIR_POLICY_FAIR_SHARE, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN};
	static const uint64_t sums[] = {LAB_TABLE_SIZE, 3, 300};
	struct weir_subset_part part[9];

	for (size_t p = 0; p < sizeof(policies) / sizeof(policies[0]); p++) {
		struct weir_config *config = lab_config(1, 9);
		struct weir_service_state service;
		struct lab lab;

		config->services[0].policy.name = policies[p];
		config->services[0].subset =
			(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
				.size = 3,
				.client = WEIR_SUBSET_CLIENT_WORKER};
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		assert_int_equal(weir_tables_service(lab.tables, 0, &service), 0);
		assert_int_equal(service.subsets, LAB_WORKERS);
		assert_int_equal(service.table_slots, p == 0 ? LAB_TABLE_SIZE : 0);
		for (uint32_t subset = 0; subset < LAB_WORKERS; subset++) {
			struct weir_subset_member members[9];
			uint64_t in = 0;

			assert_int_equal(
				weir_tables_subset_members(lab.tables, 0, subset, members), 3);
			assert_int_equal(
				weir_tables_subset_parts(lab.tables, 0, subset, part, 9), 3);
			assert_int_equal(sum_of(part, 3), sums[p]);
			for (uint32_t i = 0; i < 3; i++) {
				in |= 1ull << members[i].backend;
				in ^= 1ull << part[i].backend << 32;
			}
			assert_int_equal(in >> 32, in & 0xffffffff);
			assert_int_equal(
				weir_tables_subset_parts(lab.tables, 0, subset, part, 2), 2);
			assert_true(sum_of(part, 2) < sums[p]);
		}
		assert_int_equal(weir_tables_subset_parts(lab.tables, 0, LAB_WORKERS, part, 9), 0);
		assert_int_equal(weir_tables_subset_parts(lab.tables, 1, 0, part, 9), 0);
		assert_int_equal(weir_tables_subset_parts(lab.tables, 0xffff, 0, part, 9), 0);
		assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
		assert_int_equal(weir_tables_subset_parts(lab.tables, 0, 0, part, 9), 0);
		assert_int_equal(weir_tables_service(lab.tables, 0, &service), 0);
		assert_int_equal(service.subsets, 0);
		lab_close(&lab);
		lab_config_free(config);
	}
}
