// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the settings of policies, flow control and workload.
#include "config_lab.h"

#define ONE(extra) CONFIG("", SERVICE(extra, BIND, BACKEND))
#define POLICY(text) ONE("\"policy\": {" text "},")

TEST(defaults) {
	struct weir_config *config = parse_good(ONE(""));
	const struct weir_config_service *service = &config->services[0];

	assert_int_equal(service->policy.name, WEIR_POLICY_MAGLEV);
	assert_int_equal(service->policy.weights, WEIR_WEIGHTS_CONFIGURED);
	assert_int_equal(service->policy.statistic, WEIR_STATISTIC_AVERAGE);
	assert_int_equal(service->policy.measurement, WEIR_MEASUREMENT_EXECUTION);
	assert_int_equal(service->policy.service_time, WEIR_SERVICE_TIME_FLOW);
	assert_int_equal(service->policy.rounds, WEIR_ROUNDS_INCREMENTAL);
	assert_int_equal(service->policy.window, 386);
	assert_int_equal(service->policy.stale_ms, 180000);
	assert_int_equal(service->policy.error_window_ms, 0);
	// the following defaults are from gRFC A58
	assert_int_equal(service->policy.requests, WEIR_REQUESTS_ALL);
	assert_true(service->policy.error_penalty == 1.0);
	assert_int_equal(service->policy.blackout_ms, 10000);
	assert_int_equal(service->policy.expiration_ms, 180000);
	assert_int_equal(service->policy.update_ms, 1000);
	assert_int_equal(service->policy.smoothing_ms, 10000);
	assert_int_equal(service->policy.given, 0);
	assert_int_equal(service->workload, WEIR_WORKLOAD_CONNECTIONS);
	assert_int_equal(service->flow_control.max_active_flows, 0);
	assert_int_equal(service->flow_control.accept_queue_percent, 75);
	assert_int_equal(service->flow_control.when_exhausted, WEIR_EXHAUSTED_SPILL);
	weir_config_free(config);
	config = parse_good(POLICY(""));
	assert_int_equal(config->services[0].policy.window, 386);
	weir_config_free(config);
}

TEST(every_policy_by_its_name) {
	for (int i = 0; i < WEIR_POLICY_COUNT; i++) {
		struct weir_config *config;
		char text[1024];

		snprintf(text, sizeof(text),
			CONFIG("", SERVICE("\"policy\": {\"name\": \"%s\"},", BIND, BACKEND)),
			weir_policy_name((enum weir_policy)i));
		config = parse_good(text);
		assert_int_equal(config->services[0].policy.name, i);
		weir_config_free(config);
	}
}

TEST(settings_are_read) {
	struct weir_config *config = parse_good(
		POLICY("\"name\": \"interleaved-weighted-round-robin\", \"statistic\": \"median\", "
		       "\"window\": 65535, \"measurement\": \"busy\", \"service_time\": "
		       "\"reported\", \"stale_ms\": 1000, \"rounds\": \"documented\""));
	const struct weir_config_policy *policy = &config->services[0].policy;

	assert_int_equal(policy->statistic, WEIR_STATISTIC_MEDIAN);
	assert_int_equal(policy->window, 65535);
	assert_int_equal(policy->measurement, WEIR_MEASUREMENT_BUSY);
	assert_int_equal(policy->service_time, WEIR_SERVICE_TIME_REPORTED);
	assert_int_equal(policy->stale_ms, 1000);
	assert_int_equal(policy->rounds, WEIR_ROUNDS_DOCUMENTED);
	weir_config_free(config);
	config = parse_good(POLICY("\"name\": \"power-of-two\", \"error_window_ms\": 100"));
	assert_int_equal(config->services[0].policy.error_window_ms, 100);
	weir_config_free(config);
	config =
		parse_good(POLICY("\"name\": \"weighted-round-robin\", \"weights\": \"reported\""));
	assert_int_equal(config->services[0].policy.weights, WEIR_WEIGHTS_REPORTED);
	weir_config_free(config);
}

TEST(settings_of_reported_weights_are_read) {
	struct weir_config *config = parse_good(POLICY(
		"\"name\": \"weighted-round-robin\", \"weights\": \"reported\", \"requests\": "
		"\"successful\", \"error_penalty\": 2.5, \"blackout_ms\": 0, \"expiration_ms\": "
		"1000, \"smoothing_ms\": 1, \"update_ms\": 60000"));
	const struct weir_config_policy *policy = &config->services[0].policy;

	assert_int_equal(policy->requests, WEIR_REQUESTS_SUCCESSFUL);
	assert_true(policy->error_penalty == 2.5);
	assert_int_equal(policy->blackout_ms, 0);
	assert_int_equal(policy->expiration_ms, 1000);
	assert_int_equal(policy->smoothing_ms, 1);
	assert_int_equal(policy->update_ms, 60000);
	weir_config_free(config);
}

// Configured weights are valid with every policy; some policies ignore them.
TEST(configured_weights_go_with_every_policy) {
	weir_config_free(parse_good(POLICY("\"name\": \"random\", \"weights\": \"configured\"")));
}

TEST(limit_of_active_flows_depends_on_the_workload) {
	static const struct {
		const char *text;
		uint32_t max;
	} cases[] = {
		{ONE("\"workload\": \"requests\","), 100},
		{ONE("\"workload\": \"requests\", \"flow_control\": {},"), 100},
		{ONE("\"flow_control\": {\"when_exhausted\": \"reject\"}, \"workload\": "
		     "\"requests\","),
			100},
		{ONE("\"workload\": \"requests\", \"flow_control\": {\"max_active_flows\": 0},"),
			0},
		{ONE("\"workload\": \"requests\", \"flow_control\": {\"max_active_flows\": 7},"),
			7},
		{ONE("\"workload\": \"connections\", \"flow_control\": {},"), 0},
		{ONE("\"flow_control\": {\"max_active_flows\": 5000},"), 5000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = parse_good(cases[i].text);

		assert_int_equal(config->services[0].flow_control.max_active_flows, cases[i].max);
		weir_config_free(config);
	}
}

TEST(setting_of_another_policy_is_named) {
	static const struct {
		const char *text;
		const char *misfit[WEIR_POLICY_COUNT];
	} cases[] = {
		{POLICY(""), {0}},
		{POLICY("\"name\": \"random\", \"weights\": \"configured\""), {0}},
		{POLICY("\"name\": \"fair-share\", \"window\": 386"),
			{"window", "window", "window", "window", NULL, NULL, NULL, "window",
				"window", "window"}},
		{POLICY("\"name\": \"least-loaded\", \"error_window_ms\": 0"),
			{"error_window_ms", "error_window_ms", NULL, "error_window_ms",
				"error_window_ms", "error_window_ms", "error_window_ms",
				"error_window_ms", NULL, "error_window_ms"}},
		{POLICY("\"name\": \"weighted-round-robin\", \"weights\": \"reported\""),
			{"weights", "weights", "weights", NULL, "weights", "weights", "weights",
				"weights", "weights", "weights"}},
		{POLICY("\"name\": \"interleaved-weighted-round-robin\", \"rounds\": "
			"\"incremental\""),
			{"rounds", "rounds", "rounds", "rounds", NULL, "rounds", "rounds", "rounds",
				"rounds", "rounds"}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_config *config = parse_good(cases[i].text);

		for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
			const char *misfit = weir_config_policy_misfit(
				&config->services[0], (enum weir_policy)policy);

			if (cases[i].misfit[policy] == NULL) {
				assert_null(misfit);
			} else {
				assert_string_equal(misfit, cases[i].misfit[policy]);
			}
		}
		weir_config_free(config);
	}
}

TEST(hash_fields_are_a_misfit_of_other_policies) {
	struct weir_config *config = parse_good(ONE("\"hash_fields\": \"source\","));

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		const char *misfit =
			weir_config_policy_misfit(&config->services[0], (enum weir_policy)policy);

		if (policy == WEIR_POLICY_MAGLEV) {
			assert_null(misfit);
		} else {
			assert_string_equal(misfit, "hash_fields");
		}
	}
	weir_config_free(config);
}

TEST(names_of_settings) {
	assert_string_equal(weir_config_weights_name(WEIR_WEIGHTS_REPORTED), "reported");
	assert_string_equal(weir_config_statistic_name(WEIR_STATISTIC_MEDIAN), "median");
	assert_string_equal(weir_config_measurement_name(WEIR_MEASUREMENT_BUSY), "busy");
	assert_string_equal(weir_config_service_time_name(WEIR_SERVICE_TIME_FLOW), "flow");
	assert_string_equal(weir_config_requests_name(WEIR_REQUESTS_SUCCESSFUL), "successful");
	assert_string_equal(weir_config_rounds_name(WEIR_ROUNDS_DOCUMENTED), "documented");
	assert_string_equal(weir_config_workload_name(WEIR_WORKLOAD_REQUESTS), "requests");
	assert_string_equal(weir_config_when_exhausted_name(WEIR_EXHAUSTED_REJECT), "reject");
	assert_string_equal(weir_config_workload_name((enum weir_config_workload)77), "unknown");
}
