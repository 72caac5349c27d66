// SPDX-License-Identifier: BSD-3-Clause
//
// subsets.c: what happens to subsets when the configuration, a weight or the number of workers
// changes, or when control is restarted.
#include "subsets_lab.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// A server no longer exists, so its backend has weight 0 in the file. The backend is not used,
// but it stays in the list, so that the other backends keep their positions.
TEST(weight_0_keeps_the_position) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	uint64_t gone;
	struct lab lab;

	gone = 1ull << subset_first_of(subset_expected(config, 2, 12, 0));
	config->services[0].backends[subset_first_of(gone)].weight = 0;
	config->services[0].panic_threshold_percent = 100;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(config, 2, 12, gone));
	for (uint32_t i = 0; i < 12; i++) {
		subset_set_health(&lab, i, WEIR_HEALTH_REFUSING);
		assert_int_equal(subset_seen_by(&lab, 0) & gone, 0);
		assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 4);
	}
	lab_close(&lab);
	lab_config_free(config);
}

// Guarantee S6: backends outside of the subset keep their rows. Their existing flows continue,
// because a flow needs only the row of its backend.
TEST(s6_rows_of_backends_outside_stay) {
	struct weir_config *config = lab_config(1, 12),
			   *with = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	for (uint16_t id = 0; id < 12; id++) {
		struct weir_next_hop hop = lab_hop((uint8_t)id);

		weir_tables_set_next_hop(lab.tables, id, &hop);
	}
	weir_tables_publish(lab.tables);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 12);
	lab_apply(&lab, with);
	lab_settle(&lab);
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 4);
	for (uint16_t id = 0; id < 12; id++) {
		struct weir_backend_row row = lab_row(&lab, id);
		bool in = lab_state(&lab, id).in_selection;

		assert_true((row.flags & WEIR_BACKEND_PRESENT) != 0);
		assert_true((row.flags & WEIR_BACKEND_RESOLVED) != 0);
		assert_int_equal((row.flags & WEIR_BACKEND_OUTSIDE) == 0, in);
		assert_int_equal(weir_tables_backend_parts(lab.tables, id) > 0, in);
	}
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(with);
}

// The size of the subset, the client_id of the instance and the algorithm change at run time, and
// change back.
TEST(changes_of_the_configuration_take_effect) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct weir_config *larger = lab_config_copy(config), *elsewhere = lab_config_copy(config);
	struct weir_config *off = lab_config_copy(config), *grown;
	struct lab lab;
	uint64_t before;

	larger->services[0].subset.size = 6;
	elsewhere->instance.client_id = 0;
	off->services[0].subset.algorithm = WEIR_SUBSET_NONE;
	grown = subset_config(13, 4, WEIR_SUBSET_CLIENT_GROUP);
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	lab_apply(&lab, larger);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(larger, 2, 12, 0));
	assert_int_equal(__builtin_popcountll(subset_seen_by(&lab, 0)), 6);
	lab_apply(&lab, elsewhere);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(elsewhere, 0, 12, 0));
	assert_true(subset_seen_by(&lab, 0) != before);
	lab_apply(&lab, off);
	assert_int_equal(subset_seen_by(&lab, 0), 0xfff);
	lab_apply(&lab, grown);
	assert_int_equal(subset_seen_by(&lab, 0), subset_expected(grown, 2, 13, 0));
	lab_apply(&lab, config);
	assert_int_equal(subset_seen_by(&lab, 0), before);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(larger);
	lab_config_free(elsewhere);
	lab_config_free(off);
	lab_config_free(grown);
}

// Guarantee S3: a new control process finds the published subset, and publishes nothing.
TEST(s3_restart_publishes_nothing_new) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_WORKER);
	uint64_t before[LAB_WORKERS];
	char name[16];
	struct lab lab;
	weir_ref ref;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	snprintf(name, sizeof(name), "b%u", subset_first_of(subset_seen_by(&lab, 0)));
	weir_tables_set_admin(lab.tables, lab_id(&lab, "s0", name), WEIR_ADMIN_DRAIN);
	weir_tables_publish(lab.tables);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		before[worker] = subset_seen_by(&lab, worker);
	}
	ref = lab.segment->roots->selection[0];
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(lab.segment->roots->selection[0], ref);
	for (uint32_t worker = 0; worker < LAB_WORKERS; worker++) {
		assert_int_equal(subset_seen_by(&lab, worker), before[worker]);
	}
	lab_close(&lab);
	lab_config_free(config);
}

// A backend outside of the subset reports a weight. The weight is stored, and applies when the
// backend becomes a member.
TEST(reported_weights_apply_only_inside) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	uint32_t lost, stand_in;
	struct lab lab;
	uint64_t before;
	weir_ref ref;

	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	ref = lab.segment->roots->selection[0];
	for (uint16_t id = 0; id < 12; id++) {
		if ((before >> id & 1) == 0) {
			weir_tables_set_reported_weight(lab.tables, id, 300);
		}
	}
	weir_tables_publish(lab.tables);
	assert_int_equal(lab.segment->roots->selection[0], ref);
	lost = subset_first_of(before);
	subset_set_health(&lab, lost, WEIR_HEALTH_REFUSING);
	stand_in = subset_first_of(subset_seen_by(&lab, 0) & ~before);
	assert_int_equal(lab_state(&lab, (uint16_t)stand_in).effective_weight, 300);
	for (uint16_t id = 0; id < 12; id++) {
		uint64_t parts = weir_tables_backend_parts(lab.tables, id);

		assert_int_equal(parts > 0, (subset_seen_by(&lab, 0) >> id & 1) != 0);
		assert_true(id == stand_in ||
			    parts < weir_tables_backend_parts(lab.tables, (uint16_t)stand_in));
	}
	lab_close(&lab);
	lab_config_free(config);
}

// Guarantee S3: weights of backends outside of the subset are stored in the segment. After a
// restart of control, a backend that replaces a member has the same weight as without the
// restart.
TEST(s3_replacement_keeps_its_weight_after_a_restart) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	uint32_t lost, stand_in;
	struct lab lab;
	uint64_t before;

	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = subset_seen_by(&lab, 0);
	for (uint16_t id = 0, n = 0; id < 12; id++) {
		weir_tables_set_reported_weight(
			lab.tables, id, before >> id & 1 ? 8500u + 1000 * n++ : 10000u + id);
	}
	weir_tables_publish(lab.tables);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(subset_seen_by(&lab, 0), before);
	lost = subset_first_of(before);
	assert_int_equal(lab_state(&lab, (uint16_t)lost).effective_weight, 8500);
	subset_set_health(&lab, lost, WEIR_HEALTH_REFUSING);
	stand_in = subset_first_of(subset_seen_by(&lab, 0) & ~before);
	assert_int_equal(lab_state(&lab, (uint16_t)stand_in).effective_weight, 10000 + stand_in);
	assert_in_range(100 * weir_tables_backend_parts(lab.tables, (uint16_t)stand_in) /
				weir_tables_backend_parts(lab.tables,
					(uint16_t)subset_first_of(before & ~(1ull << lost))),
		95, 115);
	// Reports have expired, so the configured weights apply again, even after another restart.
	for (uint16_t id = 0; id < 12; id++) {
		weir_tables_set_reported_weight(lab.tables, id, 0);
	}
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_state(&lab, (uint16_t)stand_in).effective_weight, 100);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(lab_state(&lab, (uint16_t)stand_in).effective_weight, 100);
	lab_close(&lab);
	lab_config_free(config);
}

// Guarantee S3: configured weights are also stored in the segment. After a restart they must not be
// taken for reported weights.
TEST(s3_configured_weights_are_no_reports) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_GROUP);
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	for (uint32_t i = 0; i < 12; i++) {
		config->services[0].backends[i].weight = 100 + i;
	}
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_restart(&lab);
	lab_apply(&lab, config);
	for (uint16_t id = 0; id < 12; id++) {
		assert_int_equal(lab_state(&lab, id).effective_weight, 100 + id);
	}
	lab_close(&lab);
	lab_config_free(config);
}

// Each worker has a subset. When a dataplane with another number of workers starts, the subsets are
// computed again.
TEST(rebind_adapts_to_the_number_of_workers) {
	struct weir_config *config = subset_config(12, 4, WEIR_SUBSET_CLIENT_WORKER);
	struct weir_subset_state subset;
	struct weir_tables *tables;
	char why[256];
	struct lab lab;

	config->workers.count = 5;
	assert_int_equal(weir_tables_open(NULL, &tables), 0);
	assert_int_equal(weir_tables_apply(tables, config, why, sizeof(why)), 0);
	assert_int_equal(weir_tables_subset(tables, 0, &subset), 0);
	assert_int_equal(subset.subsets, 5);
	assert_int_equal(subset.params.client, 7 * 5);
	lab_open(&lab, NULL);
	weir_tables_free(lab.tables);
	lab.tables = tables;
	assert_int_equal(weir_tables_rebind(tables, lab.control), 0);
	assert_int_equal(weir_tables_subset(tables, 0, &subset), 0);
	assert_int_equal(subset.subsets, LAB_WORKERS);
	assert_int_equal(
		subset_seen_by(&lab, 1), subset_expected(config, 7 * LAB_WORKERS + 1, 12, 0));
	lab_close(&lab);
	lab_config_free(config);
}
