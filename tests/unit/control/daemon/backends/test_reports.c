// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which fields of reports are requested, and when reports end: they expire, or their source
// is removed from the configuration.
#include <errno.h>

#include "reports_lab.h"

TEST_EACH(reports_lab_setup, reports_lab_teardown);

// Reports expire after three minutes, or after four intervals if that is longer.
TEST(reports_expire_without_newer_ones) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT),
		.weight_percent = 30,
		.word = WEIR_HEALTH_WORD_DOWN};

	weir_reports_take(own->reports, 1, &report, "agent-check");
	weir_reports_second(own->reports, now_ms() + 179000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 30);
	weir_reports_second(own->reports, now_ms() + 180000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 100);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	// agents are probed every ten minutes
	own->config->services[0].agent_check.interval_ms = 600000;
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	weir_reports_take(own->reports, 1, &report, "agent-check");
	weir_reports_second(own->reports, now_ms() + 2390000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 30);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_second(own->reports, now_ms() + 2400000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 100);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
}

TEST(report_of_an_unknown_backend_changes_nothing) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT), .weight = 7};
	struct weir_reports_status status;

	assert_int_equal(weir_reports_take(own->reports, 60000, &report, "api"), 0);
	assert_int_equal(weir_reports_status(own->reports, 60000, &status), -ENOENT);
	assert_int_equal(own->changes, 0);
}

// Returns the fields that the policy uses, without the limit of flows, which is always used.
static uint32_t wants_with(struct own *own, const struct weir_config_policy *policy) {
	const uint32_t always = WEIR_REPORT(MAX_ACTIVE);
	uint32_t wants;

	own->config->services[0].policy = *policy;
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	assert_int_equal(weir_estimates_follow(own->estimates, own->lab.tables, own->config, 1), 0);
	wants = weir_reports_fields_used(own->reports, 1);
	assert_int_equal(wants & always, always);
	return wants & ~always;
}

#define FAILED (WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS))
#define TIMES (WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT))

// An agent reports only requested fields. So exactly the fields that the policy uses are requested.
TEST(agents_measure_the_used_fields) {
	static const struct {
		struct weir_config_policy policy;
		uint32_t wants;
	} cases[] = {
		{{.name = WEIR_POLICY_MAGLEV}, 0},
		{{.name = WEIR_POLICY_ROUND_ROBIN}, 0},
		{{.name = WEIR_POLICY_RANDOM}, 0},
		{{.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN}, 0},
		{{.name = WEIR_POLICY_LEAST_LOADED}, WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE)},
		{{.name = WEIR_POLICY_POWER_OF_TWO}, WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE)},
		{{.name = WEIR_POLICY_FAIR_SHARE}, FAILED | WEIR_REPORT(ACTIVE)},
		{{.name = WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN,
			 .service_time = WEIR_SERVICE_TIME_REPORTED},
			FAILED | TIMES},
		{{.name = WEIR_POLICY_FAIR_SHARE,
			 .service_time = WEIR_SERVICE_TIME_REPORTED,
			 .statistic = WEIR_STATISTIC_MEDIAN},
			FAILED | TIMES | WEIR_REPORT(SERVICE_MEDIAN) | WEIR_REPORT(ACTIVE)},
		{{.name = WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN,
			 .service_time = WEIR_SERVICE_TIME_REPORTED,
			 .measurement = WEIR_MEASUREMENT_BUSY},
			FAILED | WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT)},
		{{.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN, .weights = WEIR_WEIGHTS_REPORTED},
			FAILED | WEIR_REPORT(UTILIZATION)},
		{{.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN, .weights = WEIR_WEIGHTS_BALANCED},
			FAILED | WEIR_REPORT(ACTIVE) | WEIR_REPORT(UTILIZATION)},
		{{.name = WEIR_POLICY_PREQUAL},
			FAILED | TIMES | WEIR_REPORT(SERVICE_MEDIAN) | WEIR_REPORT(ACTIVE)},
	};
	struct own *own = *state;
	struct weir_config_policy policy;

	own->config->services[0].flow_control.accept_queue_percent = 0;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		policy = cases[i].policy;
		policy.window = 10;
		policy.stale_ms = 1000;
		assert_int_equal(wants_with(own, &policy), cases[i].wants);
	}
	own->config->services[0].backends[3].weight_auto = true;
	policy = cases[0].policy;
	assert_int_equal(wants_with(own, &policy),
		WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ) | WEIR_REPORT(GCU));
	own->config->services[0].backends[3].weight_auto = false;
	own->config->services[0].flow_control.accept_queue_percent = 75;
	assert_int_equal(wants_with(own, &policy), WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT));
	own->config->services[0].steal.enabled = true;
	assert_int_equal(wants_with(own, &policy),
		WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT) | TIMES | WEIR_REPORT(ACTIVE));
	// The policy is set at run time.
	assert_int_equal(weir_tables_set_policy(own->lab.tables, 0, WEIR_POLICY_LEAST_LOADED), 0);
	assert_int_equal(weir_estimates_follow(own->estimates, own->lab.tables, own->config, 1), 0);
	assert_true((weir_reports_fields_used(own->reports, 1) & WEIR_REPORT(ERRORS)) != 0);
	assert_int_equal(weir_reports_fields_used(own->reports, 60000), 0);
}

TEST(queue_is_used_only_with_its_limit) {
	const struct weir_report report = {
		.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT) | WEIR_REPORT(WEIGHT),
		.accept_queue_limit = 128,
		.weight = 100};
	struct own *own = *state;

	for (uint32_t percent = 0; percent <= 75; percent += 75) {
		own->config->services[0].flow_control.accept_queue_percent = percent;
		assert_int_equal(
			weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
		assert_int_equal(weir_reports_take(own->reports, 0, &report, "api"),
			percent > 0 ? report.given : WEIR_REPORT(WEIGHT));
	}
}

// A backend has several sources of reports, and one of them is removed from the configuration. The
// reports of this source are withdrawn. They would not expire, because the backend still reports
// from other sources.
TEST(removed_sources_withdraw_their_reports) {
	struct own *own = *state;
	struct weir_config_service *service = &own->config->services[0];
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT) | WEIR_REPORT(MAX_ACTIVE),
		.weight_percent = 0,
		.max_active_flows = 1,
		.word = WEIR_HEALTH_WORD_DOWN};
	struct weir_report nothing = {0};

	service->agent_check.type = WEIR_CHECK_AGENT_CHECK;
	service->health_check.type = WEIR_CHECK_HTTP;
	reload(own);
	weir_reports_take(own->reports, 1, &report, "agent-check");
	weir_reports_take(own->reports, 2, &report, "agent");
	weir_reports_take(own->reports, 3, &report, "api");
	service->health_check.type = WEIR_CHECK_HTTPS;
	service->health_check.orca = true;
	reload(own);
	for (uint16_t id = 1; id < 4; id++) {
		assert_int_equal(lab_state(&own->lab, id).own_weight, 0);
	}
	service->agent_check.type = WEIR_CHECK_NONE;
	reload(own);
	weir_reports_take(own->reports, 1, &nothing, "agent");
	assert_int_equal(lab_state(&own->lab, 1).own_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
	assert_int_not_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	assert_int_equal(lab_state(&own->lab, 2).own_weight, 0);
	service->agent.port = 0;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 2).own_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(lab_state(&own->lab, 3).own_weight, 0);
	weir_reports_take(own->reports, 2, &report, "http");
	reload(own);
	assert_int_equal(lab_state(&own->lab, 2).own_weight, 0);
	service->health_check.type = WEIR_CHECK_TCP;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 2).own_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(lab_state(&own->lab, 3).own_weight, 0);
}

// The check no longer reads load headers, so the reported load is withdrawn. The state from
// X-Weir-State stays.
TEST(load_in_orca_headers_ends_when_they_are_not_read) {
	struct own *own = *state;
	struct weir_config_health_check *check = &own->config->services[0].health_check;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT) | WEIR_REPORT(MAX_ACTIVE),
		.weight = 1,
		.max_active_flows = 1,
		.word = WEIR_HEALTH_WORD_STARTING};

	check->type = WEIR_CHECK_HTTP;
	check->orca = true;
	reload(own);
	weir_states_set_verdict(own->states, 1, WEIR_HEALTH_VERDICT_PASSING, "passes");
	weir_reports_take(own->reports, 1, &report, "http");
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).own_weight, 1);
	check->orca = false;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).own_weight, WEIR_WEIGHT_UNSET);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_STARTING);
}

// An empty report of the program withdraws its weight, and so does a reload with which exit
// statuses are not weights.
TEST(weight_of_a_program_ends) {
	struct own *own = *state;
	struct weir_config_health_check *check = &own->config->services[0].health_check;
	const struct weir_report report = {.given = WEIR_REPORT(WEIGHT), .weight = 50};
	const struct weir_report nothing = {0};

	check->type = WEIR_CHECK_EXEC;
	check->weight_from_exit = true;
	reload(own);
	weir_reports_take(own->reports, 1, &report, "exec");
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).own_weight, 50);
	weir_reports_take(own->reports, 1, &nothing, "exec");
	assert_int_equal(lab_state(&own->lab, 1).own_weight, WEIR_WEIGHT_UNSET);
	weir_reports_take(own->reports, 1, &report, "exec");
	assert_int_equal(lab_state(&own->lab, 1).own_weight, 50);
	check->weight_from_exit = false;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).own_weight, WEIR_WEIGHT_UNSET);
}

// The health check of the service has type agent_check, and the service has no separate
// agent_check. A reload must keep the reports.
TEST(reload_keeps_what_a_health_check_of_type_agent_check_reported) {
	struct own *own = *state;
	struct weir_config_service *service = &own->config->services[0];
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT),
		.weight_percent = 50,
		.word = WEIR_HEALTH_WORD_DOWN};

	service->health_check.type = WEIR_CHECK_AGENT_CHECK;
	reload(own);
	weir_states_set_verdict(own->states, 1, WEIR_HEALTH_VERDICT_PASSING, "a line");
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	assert_int_equal(lab_state(&own->lab, 1).own_weight, 50);
}
