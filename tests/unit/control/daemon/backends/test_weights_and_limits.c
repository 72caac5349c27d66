// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the limits and weights that sources report, and when they are withdrawn.
#include <string.h>

#include "agent_check.h"
#include "reports_lab.h"

static void take_queue(struct own *own, double queue, double limit) {
	struct weir_report report = {.given = WEIR_REPORT(QUEUE) | WEIR_REPORT(QUEUE_LIMIT),
		.accept_queue = queue,
		.accept_queue_limit = limit};

	weir_reports_take(own->reports, 1, &report, "agent");
}

static bool at_limit(struct own *own) {
	lab_publish(&own->lab);
	return (lab_row(&own->lab, 1).flags & WEIR_BACKEND_AT_LIMIT) != 0;
}

TEST_EACH(reports_lab_setup, reports_lab_teardown);

// A backend with an accept queue that is 75 % full is treated as a backend at its limit, until the
// queue is less than 37.5 % full.
TEST(full_accept_queue_counts_as_at_limit) {
	static const struct {
		double queue;
		bool at_limit;
	} cases[] = {{0, false}, {95, false}, {96, true}, {95, true}, {48, true}, {47, false},
		{60, false}, {95, false}, {500, true}, {0, false}};
	struct own *own = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		take_queue(own, cases[i].queue, 128);
		assert_int_equal(at_limit(own), cases[i].at_limit);
	}
	take_queue(own, 128, 128);
	assert_true(at_limit(own));
	take_queue(own, 5, 0); // the limit is unknown
	assert_false(at_limit(own));
	take_queue(own, 128, 128);
	weir_reports_source_gone(own->reports, 1, "agent");
	assert_false(at_limit(own));
	take_queue(own, 128, 128);
	own->config->services[0].flow_control.accept_queue_percent = 0;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_false(at_limit(own));
	take_queue(own, 128, 128);
	assert_false(at_limit(own));
}

// Slight changes are not applied, but the share is never above the limit.
TEST(limit_that_falls_slightly_is_kept) {
	static const struct {
		double reported;
		uint32_t limit;
	} cases[] = {{64, 64}, {62, 62}, {63, 62}, {62, 62}, {65, 65}};
	struct own *own = *state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct weir_report report = {
			.given = WEIR_REPORT(MAX_ACTIVE), .max_active_flows = cases[i].reported};

		weir_reports_take(own->reports, 1, &report, "agent");
		assert_int_equal(lab_state(&own->lab, 1).max_active_flows, cases[i].limit);
	}
}

// The limit is divided by the number of balancers that use the backend. It is not divided by the
// number of workers, and is at least one.
TEST(limit_is_divided) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(MAX_ACTIVE), .max_active_flows = 1000};

	assert_int_equal(
		weir_reports_take(own->reports, 1, &report, "agent"), WEIR_REPORT(MAX_ACTIVE));
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1000);
	own->config->instance.clients = 5;
	own->config->instance.members = 2;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 100);
	own->config->services[0].subset =
		(struct weir_config_subset){// only a quarter of the fleet uses each backend
			.algorithm = WEIR_SUBSET_RANDOM,
			.size = 1};
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1000 / 3);
	own->config->instance.clients = own->config->instance.members = 1;
	// The number of balancers that use a backend is rounded up. So the flows of all balancers
	// together stay below the limit of the backend.
	own->config->services[0].subset.size = 3;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1000);
	own->config->instance.clients = 5;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1000 / 4);
	report.max_active_flows = 3;
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1);
	// Only the source that reported the limit can withdraw it.
	report.given = 0;
	weir_reports_take(own->reports, 1, &report, "http");
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 1);
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
}

// The report contains the number of active requests of all clients. The limit of this instance is
// the number of its own flows, plus a share of the backend's free capacity.
TEST(limit_follows_active_requests) {
	static const struct {
		double active;
		uint32_t held, limit;
	} cases[] = {
		// the flows of this instance, plus a quarter of the remaining capacity
		{0, 0, 250}, {800, 0, 50}, {800, 800, 850}, {800, 500, 550}, {1000, 500, 500},
		// more requests than the limit: each instance gets a limit below its own flows
		{1200, 500, 450}, {1200, 0, 1},
		{0, 600, 700}, // more flows have started since the report
		{1000, 2000, 1000}, // never above the limit of the backend
	};
	struct own *own = *state;
	struct weir_report report = {
		.given = WEIR_REPORT(MAX_ACTIVE) | WEIR_REPORT(ACTIVE), .max_active_flows = 1000};

	own->config->instance.clients = 4;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	report.active_requests = 800;
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 250); // 4 clients
	own->config->services[0].workload = WEIR_WORKLOAD_REQUESTS;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_true((weir_reports_fields_used(own->reports, 1) & WEIR_REPORT(ACTIVE)) != 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		own->lab.segment->limit_words[1].held = cases[i].held;
		report.active_requests = cases[i].active;
		assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"),
			WEIR_REPORT(MAX_ACTIVE) | WEIR_REPORT(ACTIVE));
		assert_int_equal(lab_state(&own->lab, 1).max_active_flows, cases[i].limit);
	}
	weir_reports_second(own->reports, now_ms() + WEIR_REPORTS_EXPIRE_MS + 1);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
}

TEST(weight_is_applied_and_withdrawn) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT), .weight_percent = 30};

	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 30);
	report.weight_percent = 0.1;
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 1);
	report.weight_percent = 0;
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 0);
	// As in HAProxy, the weight is at most 256, or the configured weight if that is larger.
	report.weight_percent = 1000;
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 256);
	own->config->services[0].backends[1].weight = 300;
	lab_apply(&own->lab, own->config);
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 300);
	own->config->services[0].backends[1].weight = 100;
	lab_apply(&own->lab, own->config);
	report = (struct weir_report){.given = WEIR_REPORT(WEIGHT), .weight = 700};
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 700);
	report.weight = 1e6;
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 65535);
	weir_reports_source_gone(own->reports, 1, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 100);
}

// Passes a line of an agent-check to the reports of backend 1.
static void take_line(struct own *own, const char *line) {
	struct weir_agent_check words = {0};
	char complaint[WEIR_AGENT_CHECK_COMPLAINT_BYTES];
	struct weir_report report;

	assert_int_equal(weir_agent_check_read(&words, line, strlen(line), &report, complaint), 0);
	weir_reports_take(own->reports, 1, &report, "agent-check");
}

// As in HAProxy, a line of an agent-check changes only what it contains.
TEST(weight_and_limit_of_an_agent_check_stay_without_their_keyword) {
	static const struct {
		const char *line;
		uint32_t weight, limit;
	} rows[] = {
		{"75%\n", 75, 0},
		{"up\n", 75, 0},
		{"ready up maxconn:30\n", 75, 30},
		{"up\n", 75, 30},
		{"weight:30\n", 30, 30}, // the same class as N%
		{"up\n", 30, 30},
		{"maxconn:5\n", 30, 5},
		{"up # nothing new\n", 30, 5},
		{"up 7%5 maxconn:x\n", 30, 5}, // invalid numbers change nothing
		{"weight:50%\n", 50, 5},
		{"maxconn:0\n", 50, 0}, // no limit
		{"up\n", 50, 0},
		{"100% maxconn:9\n", 100, 9},
		{"up\n", 100, 9},
	};
	struct own *own = *state;
	struct weir_report others = {.given = WEIR_REPORT(WEIGHT), .weight = 40};

	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		take_line(own, rows[i].line);
		assert_int_equal(lab_state(&own->lab, 1).effective_weight, rows[i].weight);
		assert_int_equal(lab_state(&own->lab, 1).max_active_flows, rows[i].limit);
	}
	// The weight of another source stays as well, until the agent-check has a weight.
	weir_reports_take(own->reports, 1, &others, "api");
	take_line(own, "up\n");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 40);
	take_line(own, "60%\n");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 60);
	weir_reports_second(own->reports, now_ms() + WEIR_REPORTS_EXPIRE_MS + 1);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 100);
	assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
}

// Other sources describe themselves completely in each report.
TEST(weight_of_another_source_ends_without_it) {
	static const char *const sources[] = {"agent", "http", "api"};
	struct own *own = *state;
	const struct weir_report nothing = {.word = WEIR_HEALTH_WORD_READY};
	const struct weir_report report = {.given = WEIR_REPORT(WEIGHT) | WEIR_REPORT(MAX_ACTIVE),
		.weight = 40,
		.max_active_flows = 5};

	for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
		weir_reports_take(own->reports, 1, &report, sources[i]);
		assert_int_equal(lab_state(&own->lab, 1).effective_weight, 40);
		weir_reports_take(own->reports, 1, &nothing, sources[i]);
		assert_int_equal(lab_state(&own->lab, 1).effective_weight, 100);
		assert_int_equal(lab_state(&own->lab, 1).max_active_flows, 0);
	}
}
