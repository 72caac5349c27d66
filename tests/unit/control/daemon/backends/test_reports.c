// SPDX-License-Identifier: BSD-3-Clause
//
// Tests reports with real tables: announced states, limits, accept queues and weights.
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "agent_check.h"
#include "cpu_model.h"
#include "reports.h"
#include "tables_lab.h"

struct own {
	struct lab lab;
	struct weir_config *config; // service s0, backends b0 to b3; LAB_WORKERS workers
	struct weir_log log;
	struct weir_states *states;
	struct weir_estimates *estimates;
	struct weir_reports *reports;
	unsigned int changes; // number of changes reported by callback
};

static uint64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void on_changed(void *context) {
	struct own *own = context;

	own->changes++;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	own->log = (struct weir_log){.fd = -1};
	own->config = lab_config(1, 4);
	own->config->services[0].flow_control.accept_queue_percent = 75;
	own->config->services[0].agent.port = 4711;
	own->config->instance.clients = 1;
	own->config->instance.members = 1;
	lab_open(&own->lab, NULL);
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_create(&own->log, on_changed, own, &own->states), 0);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_estimates_create(&own->estimates), 0);
	assert_int_equal(weir_estimates_follow(own->estimates, own->lab.tables, own->config, 1), 0);
	assert_int_equal(
		weir_reports_create(own->states, own->estimates, on_changed, own, &own->reports),
		0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	weir_reports_free(own->reports);
	weir_states_free(own->states);
	weir_estimates_free(own->estimates);
	lab_close(&own->lab);
	lab_config_free(own->config);
	free(own);
	return 0;
}

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

static void reload(struct own *own) {
	lab_apply(&own->lab, own->config);
	assert_int_equal(weir_states_configure(own->states, own->lab.tables, own->config), 0);
	assert_int_equal(weir_reports_configure(own->reports, own->lab.tables, own->config), 0);
}

TEST_EACH(setup, teardown);

TEST(words_are_passed_to_the_states) {
	struct own *own = *state;
	struct weir_report report = {.word = WEIR_HEALTH_WORD_LAME_DUCK, .why = "deploy"};
	struct weir_states_status status;

	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), 0);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(weir_states_status(own->states, 1, &status), 0);
	assert_string_equal(status.why, "deploy");
	// A report without an announced state does not affect health.
	report = (struct weir_report){.given = WEIR_REPORT(UTILIZATION), .utilization = 0.5};
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_LAME_DUCK);
	report = (struct weir_report){.word = WEIR_HEALTH_WORD_DOWN};
	weir_reports_take(own->reports, 2, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 2).health, WEIR_HEALTH_REFUSING);
	// When an agent is lost, the state that it announced expires. Only lame-duck stays.
	weir_reports_source_gone(own->reports, 1, "agent");
	weir_reports_source_gone(own->reports, 2, "http");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_LAME_DUCK);
	assert_int_equal(lab_state(&own->lab, 2).health, WEIR_HEALTH_REFUSING);
	weir_reports_source_gone(own->reports, 2, "agent");
	assert_int_equal(lab_state(&own->lab, 2).health, WEIR_HEALTH_HEALTHY);
}

static void assert_why(struct own *own, uint16_t id, const char *why) {
	struct weir_states_status status;

	assert_int_equal(weir_states_status(own->states, id, &status), 0);
	assert_string_equal(status.why, why);
}

// The announced state of port 80/TCP counts for the backend, because the service has a bind at that
// port. It counts only if it is worse than the state of the host.
TEST(word_of_a_port_counts_where_a_bind_covers_it) {
	static const struct {
		uint8_t host;
		struct weir_port_word ports[3];
		enum weir_health_state state;
		const char *why; // reason; NULL = unchanged
	} cases[] = {
		{2, {{80, IPPROTO_TCP, 4, 1}}, WEIR_HEALTH_REFUSING,
			"port 80: no listening socket"},
		{2, {{80, IPPROTO_TCP, 2, 0}}, WEIR_HEALTH_HEALTHY, "port 80 listens again"},
		{2, {{80, IPPROTO_TCP, 1, 0}}, WEIR_HEALTH_STARTING, "port 80: starting"},
		{2, {{80, IPPROTO_UDP, 4, 1}}, WEIR_HEALTH_HEALTHY,
			"port 80 is announced as ready"},
		{2, {{79, IPPROTO_TCP, 4, 1}, {81, IPPROTO_TCP, 4, 1}}, WEIR_HEALTH_HEALTHY, NULL},
		{2, {{79, IPPROTO_TCP, 4, 1}, {80, IPPROTO_TCP, 3, 15}}, WEIR_HEALTH_LAME_DUCK,
			"port 80: lame-duck"},
		{4, {{80, IPPROTO_TCP, 2, 0}}, WEIR_HEALTH_REFUSING, "fine"},
		{2, {{0}}, WEIR_HEALTH_HEALTHY, "fine"}, // the state is revoked
		{3, {{80, IPPROTO_TCP, 4, 1}}, WEIR_HEALTH_REFUSING,
			"port 80: no listening socket"},
		{3, {{81, IPPROTO_TCP, 4, 1}}, WEIR_HEALTH_LAME_DUCK, "fine"},
		{4, {{80, IPPROTO_TCP, 4, 1}}, WEIR_HEALTH_REFUSING, "fine"},
	};
	struct own *own = *state;
	struct weir_states_status status;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_report report = {.word = cases[i].host, .why = "fine"};

		while (report.port_word_count < 3 &&
			cases[i].ports[report.port_word_count].port != 0) {
			report.port_word_count++;
		}
		memcpy(report.port_words, cases[i].ports, sizeof(cases[i].ports));
		weir_reports_take(own->reports, 1, &report, "agent");
		assert_int_equal(lab_state(&own->lab, 1).health, cases[i].state);
		if (cases[i].why != NULL) {
			assert_why(own, 1, cases[i].why);
		}
	}
	assert_int_equal(weir_states_status(own->states, 1, &status), 0);
	assert_int_equal(status.facts.word, WEIR_HEALTH_WORD_DOWN);
}

// The agent announces states of several ports. Two binds cover these ports; one bind has a range of
// UDP ports. The worst state counts. If it is the state of a UDP port, the reason contains "UDP".
TEST(worst_port_of_all_binds_counts) {
	struct own *own = *state;
	struct weir_config_service *service = &own->config->services[0];
	struct weir_report report = {.word = WEIR_HEALTH_WORD_READY,
		.port_word_count = 3,
		.port_words = {{1000, IPPROTO_UDP, WEIR_HEALTH_WORD_STARTING, 0},
			{1010, IPPROTO_UDP, WEIR_HEALTH_WORD_DOWN, 0},
			{80, IPPROTO_TCP, WEIR_HEALTH_WORD_LAME_DUCK, 0}}};

	service->binds = realloc(service->binds, 2 * sizeof(*service->binds));
	assert_non_null(service->binds);
	service->binds[1] = service->binds[0];
	service->binds[1].protocol = IPPROTO_UDP;
	service->binds[1].port_first = 1000;
	service->binds[1].port_last = 1010;
	service->bind_count = 2;
	reload(own);
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	assert_why(own, 1, "UDP port 1010: down");
	report.port_words[1].port = 1011;
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_LAME_DUCK);
	report.port_word_count = 1;
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_STARTING);
	assert_why(own, 1, "UDP port 1000: starting");
}

// The agent announces states of ports, but no state of the host.
TEST(word_of_a_port_ends_without_one_of_the_host) {
	struct own *own = *state;
	struct weir_report report = {
		.port_word_count = 1, .port_words = {{80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1}}};
	struct weir_report none = {0};

	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_take(own->reports, 1, &none, "http"); // a report from another source
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_take(own->reports, 1, &none, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_source_gone(own->reports, 1, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
}

// Reports of two sources alternate. A state from an agent-check or from X-Weir-State does not
// replace the states of ports that the agent has announced. Otherwise the backend would change
// between ready and down.
TEST(word_of_a_port_stays_with_the_words_of_another_source) {
	struct own *own = *state;
	struct weir_report down = {.word = WEIR_HEALTH_WORD_READY,
		.port_word_count = 1,
		.port_words = {{80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1}}};
	struct weir_report ready = {.word = WEIR_HEALTH_WORD_READY};
	unsigned int changes;

	weir_reports_take(own->reports, 1, &down, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	changes = own->changes;
	weir_reports_take(own->reports, 1, &ready, "agent-check");
	weir_reports_take(own->reports, 1, &down, "agent");
	weir_reports_take(own->reports, 1, &ready, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	assert_int_equal(own->changes, changes);
	assert_why(own, 1, "port 80: no listening socket");
	weir_reports_source_gone(own->reports, 1, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_take(own->reports, 1, &ready, "agent-check");
	weir_reports_source_gone(own->reports, 1, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	weir_reports_take(own->reports, 1, &down, "agent");
	weir_reports_take(own->reports, 1, &ready, "agent-check");
	weir_reports_take(own->reports, 1, &ready, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
}

// After the agent is lost, the announced state lame-duck stays, even if the server had been stopped
// before.
TEST(lame_duck_with_a_port_that_is_down_stays_one) {
	struct own *own = *state;
	struct weir_report report = {.word = WEIR_HEALTH_WORD_LAME_DUCK,
		.port_word_count = 1,
		.port_words = {{80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1}}};

	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_source_gone(own->reports, 1, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_LAME_DUCK);
}

// A reload moves the bind to another port. The state that the agent announced for that port counts
// at once, because the next answer may arrive a minute later.
TEST(words_of_ports_count_for_the_binds_of_a_reload) {
	struct own *own = *state;
	struct weir_config_bind *bind = &own->config->services[0].binds[0];
	struct weir_report report = {.word = WEIR_HEALTH_WORD_READY,
		.port_word_count = 1,
		.port_words = {{443, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1}}};

	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	bind->port_first = bind->port_last = 443;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	assert_why(own, 1, "port 443: no listening socket");
	assert_int_equal(lab_state(&own->lab, 2).health, WEIR_HEALTH_HEALTHY);
	// An operator has discarded the state. A reload does not apply it again.
	weir_states_set_word(own->states, 1, WEIR_HEALTH_WORD_NONE, "operator", "ready");
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	bind->port_first = bind->port_last = 80;
	reload(own);
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
}

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

static void take_cpus(struct own *own, uint16_t id, double cpus, double mhz) {
	struct weir_report report = {
		.given = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ), .cpus = cpus, .cpu_mhz = mhz};

	assert_int_equal(weir_reports_take(own->reports, id, &report, "agent"), report.given);
	lab_publish(&own->lab);
}

// The weight is CPUs x GHz x 10. It stays if the backend sends no more reports, or reports
// without CPUs.
TEST(cpus_make_an_automatic_weight) {
	static const struct {
		double cpus, mhz;
		uint32_t weight;
	} cases[] = {{8, 3000, 240}, {0.5, 2450, 12}, {1, 2449, 24}, {0.001, 100, 1},
		{1e6, 1e6, 65535}, {4, 3000, 120}};
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(CPUS), .cpus = 64};

	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), 0);
	for (uint32_t i = 0; i < 4; i++) {
		own->config->services[0].backends[i].weight_auto = i < 3;
	}
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		take_cpus(own, 1, cases[i].cpus, cases[i].mhz);
		assert_int_equal(lab_state(&own->lab, 1).effective_weight, cases[i].weight);
	}
	assert_int_equal(own->changes, sizeof(cases) / sizeof(cases[0]));
	assert_int_equal(lab_state(&own->lab, 0).effective_weight, 120);
	assert_int_equal(lab_state(&own->lab, 3).effective_weight, 100);
	take_cpus(own, 1, 4, 3000);
	assert_int_equal(own->changes, sizeof(cases) / sizeof(cases[0]));
	weir_reports_take(own->reports, 1, &report, "agent"); // CPUs of unknown speed
	report = (struct weir_report){.given = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ)};
	weir_reports_take(own->reports, 1, &report, "agent"); // no CPUs
	report.cpus = report.cpu_mhz = 1000;
	assert_int_equal(weir_reports_take(own->reports, 3, &report, "agent"), 0);
	weir_reports_source_gone(own->reports, 1, "agent");
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 120);
	assert_int_equal(lab_state(&own->lab, 3).effective_weight, 100);
}

// The weight is computed from the speed of one CPU. The speed comes from the configured table, from
// a measurement by the agent, or from the frequency of the CPU. A measured speed of 1 GCU counts as
// 3 GHz.
TEST(measured_speed_makes_an_automatic_weight) {
	static struct weir_config_gcu table[] = {{"CPU of 2026", 2}, {"CPU of 2016", 0.5}};
	const uint32_t fields = WEIR_REPORT(CPUS) | WEIR_REPORT(CPU_MHZ) | WEIR_REPORT(GCU);
	struct weir_report report = {.given = fields, .cpus = 8, .cpu_mhz = 3000, .gcu = 1.25};
	struct own *own = *state;
	struct weir_capacity capacity;

	own->config->services[0].backends[1].weight_auto = true;
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), -ENOENT);
	report.cpu_model = weir_cpu_model_number(" CPU  of 2016 ");
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"),
		WEIR_REPORT(CPUS) | WEIR_REPORT(GCU));
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 300);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), 0);
	assert_int_equal(capacity.source, WEIR_CAPACITY_FROM_MEASURED);
	assert_true(capacity.cpus == 8 && capacity.gcu == 1.25);
	// After a reload, the new table also applies to earlier reports.
	own->config->gcu = table;
	own->config->gcu_count = 2;
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 120);
	assert_int_equal(weir_reports_capacity(own->reports, 1, &capacity), 0);
	assert_int_equal(capacity.source, WEIR_CAPACITY_FROM_TABLE);
	assert_string_equal(capacity.cpu, "CPU of 2016");
	// the agent cannot measure the speed, but its CPU model is in the table
	report.given = WEIR_REPORT(CPUS);
	report.cpus = 2;
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), WEIR_REPORT(CPUS));
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 30);
	report.cpu_model = 0; // an agent of an earlier version
	assert_int_equal(weir_reports_take(own->reports, 1, &report, "agent"), 0);
	report.given = fields;
	report.cpu_model = weir_cpu_model_number("another CPU");
	weir_reports_take(own->reports, 1, &report, "agent");
	assert_int_equal(lab_state(&own->lab, 1).auto_weight, 75);
	assert_int_equal(weir_reports_capacity(own->reports, 0, &capacity), -ENOENT);
	assert_int_equal(weir_reports_capacity(own->reports, 60000, &capacity), -ENOENT);
	own->config->gcu = NULL;
	own->config->gcu_count = 0;
}

// A percentage refers to the automatic weight, even if that weight is only the mean of the weights
// of other backends.
TEST(percent_of_an_automatic_weight) {
	struct own *own = *state;
	struct weir_report report = {.given = WEIR_REPORT(WEIGHT_PERCENT), .weight_percent = 50};

	for (uint32_t i = 0; i < 4; i++) {
		own->config->services[0].backends[i].weight_auto = true;
	}
	lab_apply(&own->lab, own->config);
	weir_reports_configure(own->reports, own->lab.tables, own->config);
	weir_reports_take(own->reports, 1, &report, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 50);
	take_cpus(own, 2, 8, 3000);
	// the mean changes with the weights of other backends
	weir_reports_second(own->reports, now_ms());
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 120);
	take_cpus(own, 1, 8, 1000);
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 40);
	weir_reports_source_gone(own->reports, 1, "agent-check");
	assert_int_equal(lab_state(&own->lab, 1).effective_weight, 80);
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
		{{.name = WEIR_POLICY_FAIR_SHARE}, FAILED},
		{{.name = WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN,
			 .service_time = WEIR_SERVICE_TIME_REPORTED},
			FAILED | TIMES},
		{{.name = WEIR_POLICY_FAIR_SHARE,
			 .service_time = WEIR_SERVICE_TIME_REPORTED,
			 .statistic = WEIR_STATISTIC_MEDIAN},
			FAILED | TIMES | WEIR_REPORT(SERVICE_MEDIAN)},
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

// When the announced state of a port is revoked, the reason names the port. The reason of the
// host is not used, because it may be old.
TEST(end_of_a_word_of_a_port_is_the_reason) {
	struct own *own = *state;
	struct weir_report ready = {.word = WEIR_HEALTH_WORD_READY, .why = "weir-agent ready"};
	struct weir_report down = ready;

	down.port_word_count = 1;
	down.port_words[0] = (struct weir_port_word){80, IPPROTO_TCP, WEIR_HEALTH_WORD_DOWN, 1};
	weir_reports_take(own->reports, 1, &ready, "agent");
	weir_reports_take(own->reports, 1, &down, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_REFUSING);
	weir_reports_take(own->reports, 1, &ready, "agent");
	assert_int_equal(lab_state(&own->lab, 1).health, WEIR_HEALTH_HEALTHY);
	assert_why(own, 1, "port 80 listens again");
}
