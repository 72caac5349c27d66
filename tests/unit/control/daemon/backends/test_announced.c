// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which announced states of hosts and ports count, until when, and their reasons.
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "reports_lab.h"

TEST_EACH(reports_lab_setup, reports_lab_teardown);

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
