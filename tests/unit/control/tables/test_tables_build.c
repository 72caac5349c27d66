// SPDX-License-Identifier: BSD-3-Clause
//
// build.c builds table blobs from a state, and detects blobs that are already published.
#include "tables_lab.h"

#include <errno.h>
#include <string.h>

#include "state.h"

TEST(published_blob_is_not_built_again) {
	struct weir_config *config = lab_config(2, 3);
	struct weir_blob *blob = (struct weir_blob *)1;
	struct weir_writer_usage before, after;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_writer_usage(lab.tables->writer, &before);
	for (uint16_t id = 0; id < 6; id++) {
		struct weir_backend_row row;

		weir_build_row(lab.tables, lab.tables->state, id, &row);
		assert_false(weir_writer_publish_row(lab.tables->writer, id, &row));
	}
	assert_int_equal(weir_build_selection(lab.tables, lab.tables->state, 1, &blob), 0);
	assert_null(blob);
	assert_int_equal(weir_build_services(lab.tables, lab.tables->state, &blob), 0);
	assert_null(blob);
	weir_writer_usage(lab.tables->writer, &after);
	assert_int_equal(after.used_bytes, before.used_bytes);
	lab_close(&lab);
	lab_config_free(config);
}

static uint32_t used_slots(const struct weir_policy_table *table) {
	uint32_t used = 0;

	for (uint32_t i = 0; i < table->slot_count; i++) {
		used += table->slots[i] != 0;
	}
	return used;
}

// Each worker has a subset. A change rebuilds only the tables that it affects, and copies the other
// tables. The test marks the published tables, so that it can see which of them were copied.
TEST(only_changed_subsets_are_built) {
	struct weir_config *config = lab_config(1, 12);
	struct weir_subset_member members[12];
	struct weir_policy_table table;
	struct lab lab;
	weir_ref before;

	config->services[0].panic_threshold_percent = 0;
	config->services[0].subset =
		(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
			.size = 4,
			.client = WEIR_SUBSET_CLIENT_WORKER};
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = lab.segment->roots->selection[0];
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		table = lab_table_of(&lab, 0, worker);
		assert_int_equal(table.count, 4);
		memset(lab.control->tables + ((const uint8_t *)table.slots - lab.segment->tables),
			0, table.slot_count * sizeof(table.slots[0]));
	}
	assert_int_equal(weir_tables_subset_members(lab.tables, 0, 0, members), 4);
	weir_tables_set_health(lab.tables, members[0].backend, WEIR_HEALTH_REFUSING);
	assert_true(lab_publish(&lab) > 0);
	assert_true(lab.segment->roots->selection[0] != before);
	table = lab_table_of(&lab, 0, 0);
	assert_int_equal(table.count, 4);
	assert_in_range(used_slots(&table), table.slot_count / 2, table.slot_count);
	table = lab_table_of(&lab, 0, 1);
	assert_int_equal(table.count, 4);
	assert_int_equal(table.slot_count, LAB_TABLE_SIZE);
	assert_int_equal(used_slots(&table), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// One value of the published selection is overwritten. Control must detect the difference, and
// rebuild the selection.
TEST(selection_with_one_other_value_is_rebuilt) {
	struct weir_config *config = lab_config(1, 3);
	struct lab lab;

	for (int what = 0; what < 5; what++) {
		struct weir_selection *selection;
		struct weir_candidate *candidates;
		struct weir_blob *blob = NULL;

		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		selection = (void *)(uintptr_t)weir_writer_current(lab.tables->writer,
			(struct weir_root){.kind = WEIR_BLOB_SELECTION, .service = 0});
		candidates = (void *)((uint8_t *)selection + selection->first.candidates_off);
		switch (what) {
		case 0:
			candidates[1].weight++;
			break;
		case 1:
			candidates[1].id = 60000;
			break;
		case 2:
			selection->first.candidates = 2;
			break;
		case 3:
			selection->first.slots--;
			break;
		default:
			selection->first.candidates_off = UINT32_MAX - 7;
		}
		assert_int_equal(weir_build_selection(lab.tables, lab.tables->state, 0, &blob), 0);
		assert_non_null(blob);
		weir_writer_discard(lab.tables->writer, blob);
		lab_close(&lab);
	}
	lab_config_free(config);
}

// A change of one backend publishes only the row of this backend. A change that does not affect any
// row publishes no row.
TEST(rows_are_published_one_by_one) {
	struct weir_config *config = lab_config(3, 5);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_resolve(&lab);
	for (uint16_t id = 0; id < 15; id++) {
		struct weir_next_hop hop = lab_hop((uint8_t)(100 + id));

		weir_tables_set_next_hop(lab.tables, id, &hop);
		assert_int_equal(lab_publish(&lab), 1);
		weir_tables_set_admin(lab.tables, id, id % 3 ? WEIR_ADMIN_READY : WEIR_ADMIN_DRAIN);
		// a drain publishes the row and the selection
		assert_int_equal(lab_publish(&lab), id % 3 ? 0 : 2);
	}
	for (uint16_t id = 0; id < 15; id++) {
		struct weir_backend_row row, seen = lab_row(&lab, id);

		weir_build_row(lab.tables, lab.tables->state, id, &row);
		assert_memory_equal(&row, &seen, sizeof(row));
		assert_true(row.flags & WEIR_BACKEND_RESOLVED);
	}
	lab_close(&lab);
	lab_config_free(config);
}
