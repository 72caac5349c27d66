// SPDX-License-Identifier: BSD-3-Clause
//
// Policies and error windows that are set at run time: which are refused, and how long they apply.
#include "settings_lab.h"

#include <errno.h>
#include <string.h>

#include "config_keys.h"

TEST(policy_is_changed_at_run_time) {
	struct weir_config *config = lab_config(2, 3);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(service_of(&lab, 1).slots, LAB_TABLE_SIZE);
	assert_int_equal(weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_ROUND_ROBIN), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_int_equal(published(&lab, 1).settings.policy, WEIR_POLICY_ROUND_ROBIN);
	assert_int_equal(published(&lab, 0).settings.policy, WEIR_POLICY_MAGLEV);
	assert_int_equal(service_of(&lab, 1).policy, WEIR_POLICY_ROUND_ROBIN);
	assert_int_equal(service_of(&lab, 1).configured_policy, WEIR_POLICY_MAGLEV);
	assert_int_equal(service_of(&lab, 1).runtime_policy, WEIR_POLICY_ROUND_ROBIN);
	assert_int_equal(service_of(&lab, 1).slots, 0);
	assert_int_equal(lab_id(&lab, "s1", "b2"), 5);
	assert_int_equal(weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_UNSET), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_int_equal(published(&lab, 1).settings.policy, WEIR_POLICY_MAGLEV);
	assert_int_equal(service_of(&lab, 1).runtime_policy, WEIR_POLICY_UNSET);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(refused_changes) {
	struct weir_config *config = lab_config(1, 1);
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_RANDOM), -ENOENT);
	assert_int_equal(weir_tables_set_policy(lab.tables, 65535, WEIR_POLICY_RANDOM), -ENOENT);
	assert_int_equal(weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_COUNT), -EINVAL);
	assert_int_equal(weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_RANDOM), -EINVAL);
	assert_int_equal(weir_tables_set_error_window(lab.tables, 1, 2000), -ENOENT);
	assert_int_equal(weir_tables_set_reported_weight(lab.tables, 1, 2), -ENOENT);
	assert_int_equal(lab_publish(&lab), 0);
	lab_close(&lab);
	lab_config_free(config);
}

// Guarantee S3: settings of an operator survive a restart of control.
TEST(s3_run_time_policy_survives_a_restart) {
	struct weir_config *config = lab_config(2, 2);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_FAIR_SHARE);
	weir_tables_publish(lab.tables);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(service_of(&lab, 1).runtime_policy, WEIR_POLICY_FAIR_SHARE);
	assert_int_equal(published(&lab, 1).settings.policy, WEIR_POLICY_FAIR_SHARE);
	assert_int_equal(service_of(&lab, 0).runtime_policy, WEIR_POLICY_UNSET);
	// The file was changed while control was down.
	lab_restart(&lab);
	config->services[1].policy.name = WEIR_POLICY_RANDOM;
	lab_apply(&lab, config);
	assert_int_equal(service_of(&lab, 1).runtime_policy, WEIR_POLICY_UNSET);
	assert_int_equal(published(&lab, 1).settings.policy, WEIR_POLICY_RANDOM);
	lab_close(&lab);
	lab_config_free(config);
}

// Guarantee S4: a policy set at run time survives a restart of the dataplane.
TEST(s4_run_time_policy_survives_a_new_dataplane) {
	struct weir_config *config = lab_config(1, 2);
	struct weir_segment *segment = lab_segment(NULL), *second = lab_attach(segment);
	struct weir_policy_settings settings;
	struct lab lab, other = {.segment = segment};

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_LEAST_LOADED);
	weir_tables_set_error_window(lab.tables, 0, 4000);
	weir_tables_publish(lab.tables);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	assert_int_equal(weir_tables_rebind(lab.tables, second), 0);
	settings = lab_table_of(&other, 0, 0).settings;
	assert_int_equal(settings.policy, WEIR_POLICY_LEAST_LOADED);
	assert_int_equal(settings.error_window_ms, 4000);
	assert_int_equal(weir_tables_rebind(lab.tables, NULL), 0);
	weir_segment_free(second);
	weir_segment_free(segment);
	lab_close(&lab);
	lab_config_free(config);
}

// Returns the bit of a configuration key in a policy's bit mask `given`.
static uint32_t given(const char *name) {
	for (uint32_t i = 0; i < weir_config_policy_keys.count; i++) {
		if (strcmp(weir_config_policy_keys.key[i].key, name) == 0) {
			return 1u << i;
		}
	}
	fail_msg("policies have no key %s", name);
	return 0;
}

TEST(configuration_drops_operator_settings) {
	struct weir_config *config = lab_config(1, 2), *copy;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_RANDOM);
	weir_tables_publish(lab.tables);
	copy = lab_config_copy(config);
	copy->services[0].backends[0].weight = 7; // another change
	lab_apply(&lab, copy);
	assert_int_equal(service_of(&lab, 0).policy, WEIR_POLICY_RANDOM);
	copy->services[0].policy.name = WEIR_POLICY_ROUND_ROBIN;
	lab_apply(&lab, copy);
	assert_int_equal(service_of(&lab, 0).policy, WEIR_POLICY_ROUND_ROBIN);
	assert_int_equal(service_of(&lab, 0).runtime_policy, WEIR_POLICY_UNSET);
	// The policy set at run time does not permit a setting that the file now contains.
	weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	copy->services[0].policy.name = WEIR_POLICY_ROUND_ROBIN;
	copy->services[0].policy.given = given("window");
	lab_apply(&lab, copy);
	assert_int_equal(service_of(&lab, 0).policy, WEIR_POLICY_ROUND_ROBIN);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(copy);
}

// A service that is removed and added again has its configured settings.
TEST(readded_service_has_its_configured_settings) {
	struct weir_config *config = lab_config(2, 1), *without;
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_policy(lab.tables, 1, WEIR_POLICY_RANDOM);
	without = lab_config_copy(config);
	lab_remove_service(without, 1);
	lab_apply(&lab, without);
	lab_apply(&lab, config);
	assert_int_equal(service_of(&lab, 1).policy, WEIR_POLICY_MAGLEV);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(without);
}

TEST(error_window_survives_a_restart) {
	struct weir_config *config = lab_config(1, 2);
	struct lab lab;

	config->services[0].policy.name = WEIR_POLICY_LEAST_LOADED;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	weir_tables_set_error_window(lab.tables, 0, 12000);
	weir_tables_publish(lab.tables);
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(published(&lab, 0).settings.error_window_ms, 12000);
	config->services[0].policy.error_window_ms = 200; // the file takes precedence
	lab_apply(&lab, config);
	assert_int_equal(published(&lab, 0).settings.error_window_ms, 200);
	lab_close(&lab);
	lab_config_free(config);
}

// The segment contains an invalid policy, which another process may have stored.
TEST(invalid_identity_of_a_policy) {
	struct weir_config *config = lab_config(1, 1);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	lab.control->identity_services[0].policies = 200u << 8 | WEIR_POLICY_MAGLEV;
	lab_restart(&lab);
	lab_apply(&lab, config);
	assert_int_equal(service_of(&lab, 0).policy, WEIR_POLICY_MAGLEV);
	lab_close(&lab);
	lab_config_free(config);
}

TEST(hash_fields_replace_a_policy_that_does_not_use_them) {
	struct weir_config *config = lab_config(1, 3), *next = lab_config_copy(config);
	struct lab lab;

	next->services[0].hash_fields = WEIR_HASH_FIELDS_SOURCE;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_RANDOM), 0);
	lab_publish(&lab);
	assert_int_equal(published(&lab, 0).settings.policy, WEIR_POLICY_RANDOM);
	lab_apply(&lab, next);
	assert_int_equal(published(&lab, 0).settings.policy, WEIR_POLICY_MAGLEV);
	assert_int_equal(weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_RANDOM), -EINVAL);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(next);
}
