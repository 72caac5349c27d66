// SPDX-License-Identifier: BSD-3-Clause
//
// settings.c: policies and their settings, as they are published.
#include "settings_lab.h"

#include <errno.h>
#include <netinet/in.h>

#define COST WEIR_NEEDS_COST
#define ERRORS WEIR_NEEDS_ERRORS
#define TIMES WEIR_NEEDS_TIMES
#define FOR_CONTROL (WEIR_NEEDS_RESULTS | WEIR_NEEDS_HALF_OPEN)

TEST(settings_of_every_policy) {
	static const struct {
		struct weir_config_policy config;
		uint8_t needs;
		uint32_t window_ms;
		uint8_t rounds;
	} cases[] = {
		{{.name = WEIR_POLICY_MAGLEV}, WEIR_NEEDS_SLOTS, 1000, 0},
		{{.name = WEIR_POLICY_ROUND_ROBIN}, 0, 1000, 0},
		{{.name = WEIR_POLICY_RANDOM}, 0, 1000, 0},
		{{.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN, .weights = WEIR_WEIGHTS_REPORTED}, 0,
			1000, 0},
		{{.name = WEIR_POLICY_LEAST_LOADED}, ERRORS | TIMES, 1000, 0},
		{{.name = WEIR_POLICY_LEAST_LOADED, .error_window_ms = 300}, ERRORS, 300, 0},
		{{.name = WEIR_POLICY_POWER_OF_TWO}, ERRORS | TIMES, 1000, 0},
		{{.name = WEIR_POLICY_FAIR_SHARE}, COST | TIMES, 1000, 0},
		{{.name = WEIR_POLICY_FAIR_SHARE, .service_time = WEIR_SERVICE_TIME_REPORTED}, COST,
			1000, 0},
		{{.name = WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN}, COST | TIMES, 1000, 0},
		{{.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN},
			COST | TIMES | WEIR_NEEDS_ROUNDS, 1000, 0},
		{{.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN,
			 .rounds = WEIR_ROUNDS_DOCUMENTED},
			COST | TIMES | WEIR_NEEDS_ROUNDS, 1000, WEIR_ROUNDS_DOCUMENTED},
		{{.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN,
			 .rounds = WEIR_ROUNDS_TASKS}, // needs no service times
			COST | WEIR_NEEDS_ROUNDS, 1000, WEIR_ROUNDS_TASKS},
		{{.name = WEIR_POLICY_FAIR_SHARE, .rounds = WEIR_ROUNDS_TASKS}, COST | TIMES, 1000,
			0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = lab_config(1, 3);
		struct weir_policy_settings settings;
		struct lab lab;

		config->services[0].policy = cases[i].config;
		config->services[0].outlier_ejection.enabled = i % 2 == 1;
		config->services[0].steal.enabled = i % 3 == 1;
		config->services[0].flow_control.max_active_flows = 7;
		config->services[0].flow_control.when_exhausted = WEIR_EXHAUSTED_REJECT;
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		settings = published(&lab, 0).settings;
		assert_int_equal(settings.policy, cases[i].config.name);
		assert_int_equal(settings.needs & ~FOR_CONTROL, cases[i].needs);
		assert_int_equal((settings.needs & WEIR_NEEDS_RESULTS) != 0, i % 2 == 1);
		assert_int_equal((settings.needs & WEIR_NEEDS_HALF_OPEN) != 0, i % 3 == 1);
		assert_int_equal(settings.error_window_ms, cases[i].window_ms);
		assert_int_equal(settings.rounds, cases[i].rounds);
		assert_int_equal(settings.max_active_flows, 0); // the limit is in the rows
		assert_int_equal(lab_row(&lab, 2).max_active_flows, 7);
		assert_int_equal(settings.when_exhausted, WEIR_EXHAUSTED_REJECT);
		assert_int_equal(published(&lab, 0).count, 3);
		settings = service_of(&lab, 0).settings;
		assert_int_equal(settings.needs & ~FOR_CONTROL, cases[i].needs);
		assert_int_equal(settings.max_active_flows, 7);
		lab_close(&lab);
		lab_config_free(config);
	}
}

// With any policy, settings are published only when they change.
TEST(unchanged_settings_are_not_published_again) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct weir_config *config = lab_config(1, 4), *copy;
		uint64_t publications;
		struct lab lab;

		config->services[0].policy.name = (enum weir_policy)policy;
		config->services[0].backends[1].weight = 300;
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		publications = lab.segment->notes->publications;
		copy = lab_config_copy(config);
		lab_apply(&lab, copy);
		weir_tables_set_weight(lab.tables, 1, 300);
		weir_tables_set_weight(lab.tables, 1, WEIR_WEIGHT_UNSET);
		weir_tables_set_error_window(lab.tables, 0, 1000);
		// this policy does not use reported weights
		weir_tables_set_reported_weight(lab.tables, 0, 5);
		weir_tables_publish(lab.tables);
		// Settings that are set and then unset before a publication have no effect.
		assert_int_equal(lab.segment->notes->publications, publications);
		copy->services[0].flow_control.max_active_flows = 5;
		lab_apply(&lab, copy);
		// only rows are published
		assert_int_equal(lab.segment->notes->publications, publications + 4);
		for (uint16_t id = 0; id < 4; id++) {
			assert_int_equal(lab_row(&lab, id).max_active_flows, 5);
		}
		weir_tables_set_weight(lab.tables, 1, 301);
		weir_tables_publish(lab.tables);
		assert_int_equal(lab.segment->notes->publications, publications + 5);
		lab_close(&lab);
		lab_config_free(config);
		lab_config_free(copy);
	}
}

// The row contains the smaller of two limits: the limit of the service, and that of the backend.
TEST(row_has_the_smaller_limit) {
	struct weir_config *config = lab_config(1, 3), *copy;
	struct lab lab;

	config->services[0].flow_control.max_active_flows = 100;
	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_limit(lab.tables, 0, 40, false), 0);
	assert_int_equal(weir_tables_set_limit(lab.tables, 1, 400, false), 0);
	weir_tables_publish(lab.tables);
	assert_int_equal(lab_row(&lab, 0).max_active_flows, 40);
	assert_int_equal(lab_row(&lab, 1).max_active_flows, 100);
	assert_int_equal(lab_row(&lab, 2).max_active_flows, 100);
	assert_int_equal(lab_state(&lab, 1).limit, 100);
	assert_int_equal(lab_state(&lab, 1).max_active_flows, 400);
	copy = lab_config_copy(config);
	copy->services[0].flow_control.max_active_flows = 0;
	lab_apply(&lab, copy);
	assert_int_equal(lab_row(&lab, 0).max_active_flows, 40);
	assert_int_equal(lab_row(&lab, 1).max_active_flows, 400);
	assert_int_equal(lab_row(&lab, 2).max_active_flows, 0);
	lab_close(&lab);
	lab_config_free(config);
	lab_config_free(copy);
}

// A backend's own limit is published in its row. The selection does not change.
TEST(own_limit_is_one_row) {
	struct weir_config *config = lab_config(1, 4);
	struct lab lab;

	lab_open(&lab, NULL);
	lab_apply(&lab, config);
	assert_int_equal(weir_tables_set_limit(lab.tables, 2, 250, false), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_int_equal(lab_row(&lab, 2).max_active_flows, 250);
	assert_int_equal(lab_row(&lab, 2).flags & WEIR_BACKEND_AT_LIMIT, 0);
	assert_int_equal(weir_tables_set_limit(lab.tables, 2, 250, true), 0);
	assert_int_equal(lab_publish(&lab), 1);
	assert_int_equal(lab_row(&lab, 2).flags & WEIR_BACKEND_AT_LIMIT, WEIR_BACKEND_AT_LIMIT);
	assert_int_equal(lab_row(&lab, 1).flags & WEIR_BACKEND_AT_LIMIT, 0);
	assert_int_equal(lab_state(&lab, 2).max_active_flows, 250);
	assert_true(lab_state(&lab, 2).at_limit);
	weir_tables_set_limit(lab.tables, 2, 250, true);
	assert_int_equal(lab_publish(&lab), 0);
	assert_int_equal(weir_tables_set_limit(lab.tables, WEIR_BACKEND_NONE, 1, true), -ENOENT);
	lab_close(&lab);
	lab_config_free(config);
}

// Each backend's share depends on the policy.
TEST(parts_by_policy) {
	static const struct {
		enum weir_policy policy;
		enum weir_rounds rounds;
		uint64_t part[3], sum; // shares of backends with weights 100, 200, 300
	} cases[] = {
		{WEIR_POLICY_ROUND_ROBIN, WEIR_ROUNDS_INCREMENTAL, {1, 1, 1}, 3},
		{WEIR_POLICY_RANDOM, WEIR_ROUNDS_INCREMENTAL, {1, 1, 1}, 3},
		{WEIR_POLICY_LEAST_LOADED, WEIR_ROUNDS_INCREMENTAL, {100, 200, 300}, 600},
		{WEIR_POLICY_POWER_OF_TWO, WEIR_ROUNDS_INCREMENTAL, {1, 1, 1}, 3},
		{WEIR_POLICY_FAIR_SHARE, WEIR_ROUNDS_INCREMENTAL, {1, 1, 1}, 3},
		{WEIR_POLICY_WEIGHTED_ROUND_ROBIN, WEIR_ROUNDS_INCREMENTAL, {21845, 43690, 65535},
			131070},
		{WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN, WEIR_ROUNDS_INCREMENTAL, {100, 200, 300},
			600},
		{WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, WEIR_ROUNDS_INCREMENTAL,
			{100, 200, 300}, 600},
		{WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, WEIR_ROUNDS_DOCUMENTED,
			{100, 300, 600}, 1000},
		{WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, WEIR_ROUNDS_TASKS, {1, 2, 3}, 6},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = lab_config(1, 3);
		struct lab lab;

		config->services[0].policy.name = cases[i].policy;
		config->services[0].policy.rounds = cases[i].rounds;
		config->services[0].backends[1].weight = 200;
		config->services[0].backends[2].weight = 300;
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		for (uint16_t id = 0; id < 3; id++) {
			assert_int_equal(
				weir_tables_backend_parts(lab.tables, id), cases[i].part[id]);
			assert_true(lab_state(&lab, id).in_selection);
		}
		assert_int_equal(service_of(&lab, 0).parts, cases[i].sum);
		weir_tables_set_admin(lab.tables, 1, WEIR_ADMIN_DRAIN);
		weir_tables_publish(lab.tables);
		assert_int_equal(weir_tables_backend_parts(lab.tables, 1), 0);
		assert_false(lab_state(&lab, 1).in_selection);
		lab_close(&lab);
		lab_config_free(config);
	}
}

// The setting `sharers` is the number of workers that use a backend: the workers of all instances,
// or only the workers that have the backend in their subset.
TEST(fair_share_gets_the_number_of_sharers) {
	static const struct {
		enum weir_policy policy;
		uint32_t clients, members, size, sharers;
	} cases[] = {
		{WEIR_POLICY_FAIR_SHARE, 1, 1, 0, LAB_WORKERS},
		{WEIR_POLICY_FAIR_SHARE, 3, 2, 0, 6 * LAB_WORKERS},
		{WEIR_POLICY_FAIR_SHARE, 3, 2, 4, 3 * LAB_WORKERS},
		{WEIR_POLICY_FAIR_SHARE, 1, 1, 1, 1},
		{WEIR_POLICY_FAIR_SHARE, 3, 2, 20, 6 * LAB_WORKERS},
		{WEIR_POLICY_LEAST_LOADED, 3, 2, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = lab_config(1, 8);
		struct lab lab;

		config->services[0].policy.name = cases[i].policy;
		config->instance.clients = cases[i].clients;
		config->instance.members = cases[i].members;
		if (cases[i].size > 0) {
			config->services[0].subset =
				(struct weir_config_subset){.algorithm = WEIR_SUBSET_DETERMINISTIC,
					.client = WEIR_SUBSET_CLIENT_WORKER,
					.size = cases[i].size};
		}
		lab_open(&lab, NULL);
		lab_apply(&lab, config);
		assert_int_equal(published(&lab, 0).settings.sharers, cases[i].sharers);
		lab_close(&lab);
		lab_config_free(config);
	}
}

// With affinity, Maglev hashes the source; for other policies, an affinity table has the backend of
// the source.
TEST(affinity_and_hash_fields_are_published) {
	static const struct {
		enum weir_policy policy;
		enum weir_hash_fields fields;
		struct weir_config_affinity affinity;
		uint8_t hash4, hash6;
	} cases[] = {
		{WEIR_POLICY_MAGLEV, WEIR_HASH_FIELDS_TUPLE, {0}, 0, 0},
		{WEIR_POLICY_MAGLEV, WEIR_HASH_FIELDS_SOURCE, {0}, 32, 128},
		{WEIR_POLICY_MAGLEV, WEIR_HASH_FIELDS_SOURCE_DESTINATION, {0},
			32 | WEIR_HASH_DESTINATION, 128},
		{WEIR_POLICY_MAGLEV, WEIR_HASH_FIELDS_TUPLE, {WEIR_AFFINITY_SOURCE, 24, 64, 5000},
			24, 64},
		{WEIR_POLICY_LEAST_LOADED, WEIR_HASH_FIELDS_TUPLE,
			{WEIR_AFFINITY_SOURCE, 24, 64, 5000}, 24 | WEIR_HASH_AFFINITY, 64},
	};
	struct weir_config *config = lab_config(1, 3);
	struct lab lab;

	lab_open(&lab, NULL);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *next = lab_config_copy(config);
		struct weir_policy_table table;

		next->services[0].policy.name = cases[i].policy;
		next->services[0].hash_fields = cases[i].fields;
		next->services[0].affinity = cases[i].affinity;
		lab_apply(&lab, next);
		table = published(&lab, 0);
		assert_int_equal(table.settings.hash4, cases[i].hash4);
		assert_int_equal(table.settings.hash6, cases[i].hash6);
		assert_int_equal(table.affinity_ms, cases[i].affinity.timeout_ms);
		lab_config_free(config);
		config = next;
	}
	// Affinity also works with a policy that is set at run time.
	assert_int_equal(weir_tables_set_policy(lab.tables, 0, WEIR_POLICY_MAGLEV), 0);
	lab_publish(&lab);
	assert_int_equal(published(&lab, 0).settings.hash4, 24);
	// A change of the timeout alone is published.
	config->services[0].affinity.timeout_ms = 6000;
	lab_apply(&lab, config);
	assert_int_equal(published(&lab, 0).affinity_ms, 6000);
	lab_close(&lab);
	lab_config_free(config);
}

// The flag is published in addition to the rounds, and its change alone is published.
TEST(udp_by_datagram_is_published) {
	struct weir_config *config = lab_config(1, 3);
	struct lab lab;

	config->services[0].binds[0].protocol = IPPROTO_UDP;
	config->services[0].policy.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN;
	config->services[0].policy.rounds = WEIR_ROUNDS_TASKS;
	lab_open(&lab, NULL);
	for (unsigned int i = 0; i < 4; i++) {
		struct weir_policy_settings settings;
		struct weir_config *next = lab_config_copy(config);

		next->services[0].udp =
			i % 2 == 1 ? WEIR_CONFIG_UDP_DATAGRAM : WEIR_CONFIG_UDP_FLOW;
		lab_apply(&lab, next);
		settings = published(&lab, 0).settings;
		assert_int_equal(weir_policy_by_datagram(&settings), i % 2 == 1);
		assert_int_equal(weir_policy_rounds(&settings), WEIR_ROUNDS_TASKS);
		lab_config_free(config);
		config = next;
	}
	lab_close(&lab);
	lab_config_free(config);
}
