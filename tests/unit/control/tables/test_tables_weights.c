// SPDX-License-Identifier: BSD-3-Clause
//
// Weights of backends: automatic ones, which are those of their CPUs, and those that backends
// report.
#include "tables_lab.h"

#include <errno.h>

// With any policy, a weight that a backend reports replaces the configured weight. A weight set by
// an operator takes precedence.
TEST(own_weight_replaces_the_configured_one) {
	struct weir_config *config = lab_config(1, 4);
	uint32_t before;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	before = lab_slots(&lab, 0, 1);
	assert_int_equal(lab_state(&lab, 1).own_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(weir_tables_set_own_weight(lab.tables, 1, 300), 0);
	lab_publish(&lab);
	assert_int_equal(lab_state(&lab, 1).effective_weight, 300);
	// the share is now 3/6 instead of 1/4
	assert_in_range(lab_slots(&lab, 0, 1), 2 * before - 10, 2 * before + 10);
	weir_tables_set_weight(lab.tables, 1, 50);
	assert_int_equal(lab_state(&lab, 1).effective_weight, 50);
	weir_tables_set_weight(lab.tables, 1, WEIR_WEIGHT_UNSET);
	weir_tables_set_own_weight(lab.tables, 1, 0);
	lab_publish(&lab);
	assert_int_equal(lab_slots(&lab, 0, 1), 0);
	weir_tables_set_own_weight(lab.tables, 1, WEIR_WEIGHT_UNSET);
	lab_publish(&lab);
	assert_int_equal(lab_state(&lab, 1).effective_weight, 100);
	assert_int_equal(lab_slots(&lab, 0, 1), before);
	lab_close(&lab);
	lab_config_free(config);
}

static uint32_t effective(const struct lab *lab, uint16_t id) {
	return lab_state(lab, id).effective_weight;
}

static void set_auto(struct lab *lab, uint16_t id, uint32_t weight) {
	assert_int_equal(weir_tables_set_auto_weight(lab->tables, id, weight), 0);
	lab_publish(lab);
}

static struct weir_config *automatic(void) { // automatic weights for b0 to b2; b3 has weight 50
	struct weir_config *config = lab_config(1, 4);

	for (int i = 0; i < 3; i++) {
		config->services[0].backends[i].weight_auto = true;
	}
	config->services[0].backends[3].weight = 50;
	return config;
}

TEST(automatic_weight_is_that_of_the_cpus_or_the_mean) {
	struct weir_config *config = automatic();
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(effective(&lab, 0), 100);
	set_auto(&lab, 0, 240);
	assert_int_equal(effective(&lab, 0), 240);
	assert_int_equal(effective(&lab, 1), 240);
	assert_int_equal(effective(&lab, 3), 50);
	set_auto(&lab, 1, 121);
	assert_int_equal(effective(&lab, 2), 181); // rounded from 180.5
	assert_int_equal(lab_state(&lab, 2).configured_weight, 181);
	assert_int_equal(lab_state(&lab, 2).auto_weight, 0);
	assert_int_equal(lab_state(&lab, 1).auto_weight, 121);
	assert_in_range(lab_slots(&lab, 0, 0), LAB_TABLE_SIZE * 240 / 592 - 5,
		LAB_TABLE_SIZE * 240 / 592 + 5);
	assert_int_equal(weir_tables_set_auto_weight(lab.tables, 3, 7), -ENOENT);
	assert_int_equal(weir_tables_set_auto_weight(lab.tables, WEIR_BACKEND_NONE, 7), -ENOENT);
	set_auto(&lab, 1, 1000000);
	assert_int_equal(effective(&lab, 1), 65535);
	lab_close(&lab);
	lab_config_free(config);
}

// A weight set at run time replaces the automatic weight until the run-time weight is unset, or the
// weight in the file changes.
TEST(automatic_weight_is_a_configured_one) {
	struct weir_config *config = automatic(), *copy = automatic();
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	set_auto(&lab, 0, 240);
	weir_tables_set_weight(lab.tables, 0, 7);
	set_auto(&lab, 0, 300);
	lab_apply(&lab, copy);
	assert_int_equal(effective(&lab, 0), 7);
	weir_tables_set_weight(lab.tables, 0, WEIR_WEIGHT_UNSET);
	assert_int_equal(effective(&lab, 0), 300);
	weir_tables_set_own_weight(lab.tables, 0, 30);
	assert_int_equal(effective(&lab, 0), 30);
	weir_tables_set_own_weight(lab.tables, 0, WEIR_WEIGHT_UNSET);
	weir_tables_set_weight(lab.tables, 0, 7);
	set_auto(&lab, 1, 100);
	// the file now has a fixed weight of 100
	config->services[0].backends[0].weight_auto = false;
	lab_apply(&lab, config);
	assert_int_equal(effective(&lab, 0), 100);
	lab_apply(&lab, copy); // the former automatic weight is lost
	assert_int_equal(lab_state(&lab, 0).auto_weight, 0);
	assert_int_equal(effective(&lab, 0), 100); // unknown, so it is the mean: b1's weight
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(copy);
}

TEST(s3_automatic_weights_survive_a_restart) {
	struct weir_config *config = automatic();
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	set_auto(&lab, 0, 240);
	set_auto(&lab, 1, 120);
	weir_tables_set_weight(lab.tables, 1, 9);
	lab_publish(&lab);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(effective(&lab, 0), 240);
	assert_int_equal(effective(&lab, 1), 9);
	assert_int_equal(effective(&lab, 2), 180);
	lab_remove_backend(config, 0, 1);
	lab_apply(&lab, config);
	assert_int_equal(effective(&lab, 2), 240);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	assert_int_equal(effective(&lab, 0), 240);
	lab_close(&lab);
	lab_config_free(config);
}

// The segment has reported weights from the previous control process. They apply only if the policy
// uses reports.
TEST(adopted_weights_apply_only_with_reports) {
	struct weir_config *config = lab_config(1, 2), *copy;
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab_restart(&lab);
	lab_apply(&lab, config);
	copy = lab_config_copy(config);
	copy->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	copy->services[0].backends[0].weight = 7;
	lab_apply(&lab, copy);
	assert_int_equal(lab_state(&lab, 0).effective_weight, 7);
	weir_tables_set_reported_weight(lab.tables, 0, 5000);
	weir_tables_set_weight(lab.tables, 0, 14);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_state(&lab, 0).effective_weight, 10000);
	lab_restart(&lab);
	lab_apply(&lab, copy);
	assert_int_equal(lab_state(&lab, 0).reported_weight, 5000);
	assert_int_equal(lab_state(&lab, 0).effective_weight, 10000);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(copy);
}
