// SPDX-License-Identifier: BSD-3-Clause
//
// The state of flow steals and of agents across reloads.
#include "flow_steals_lab.h"

#include <errno.h>

#include "starved.h"

#define ALLOCATIONS_MOST 100 // maximum number of allocations of a reload

TEST_EACH(setup, teardown);

// A reload that does not change the service: its round continues, and so does its timer.
TEST(steals_continue_through_other_reloads) {
	struct own *own = *state;
	uint64_t end;

	hold_answers(own, 3);
	configure(own);
	answer_all(own);
	run_until_ended(own, 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
	assert_int_equal(flows_at(own, VICTIM), 0);
	own->holds = false;
	begin_flows(own, 6);
	for (end = now_ms() + 20000; ended(own) < 9 && now_ms() < end;) {
		run_for(own, WEIR_ROUND_MS / 3);
		configure(own);
	}
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 9);
}

// A reload of the service itself neither refills its rate nor ends the pause of an agent that
// cannot help.
TEST(steals_keep_rate_and_pauses_through_reloads) {
	struct own *own = *state;
	uint64_t began_ms = now_ms(), end;

	own->config->services[0].steal.per_second = 2;
	own->result = WEIR_AGENT_STEAL_RUNNING;
	configure(own);
	begin_flows(own, 100);
	for (end = began_ms + 2000; now_ms() < end;) {
		run_for(own, 150);
		own->config->services[0].steal.after_ms ^= 1;
		configure(own);
	}
	run_for(own, 300);
	assert_in_range(own->request_count, 2, 2 + 2 * (now_ms() - began_ms) / 1000 + 1);
	own->config->services[0].steal.per_second = 600;
	own->result = WEIR_AGENT_STEAL_OFF;
	configure(own);
	while (own->lines == 0) {
		run_for(own, 5);
	}
	own->request_count = own->answered = 0;
	for (end = now_ms() + 600; now_ms() < end;) { // the agent gets no request for a second
		run_for(own, 150);
		own->config->services[0].steal.after_ms ^= 1;
		configure(own);
	}
	assert_int_equal(own->request_count, 0);
	assert_int_equal(own->lines, 1);
}

// An agent's inability is logged once, and requests become less frequent, also if the agent refuses
// some requests for another reason.
TEST(steals_become_less_frequent_for_any_refusal) {
	struct own *own = *state;
	uint64_t end = now_ms() + 60000;
	uint32_t rounds = 0, asked;

	own->result = WEIR_AGENT_STEAL_COOKIES;
	begin_flows(own, 2);
	while (rounds < 3 && now_ms() < end) {
		asked = own->request_count;
		run_for(own, 5);
		rounds += own->request_count > asked;
		own->result = own->request_count % 2 == 0 ? WEIR_AGENT_STEAL_COOKIES
							  : WEIR_AGENT_STEAL_RUNNING;
	}
	assert_int_equal(rounds, 3);
	assert_int_equal(own->lines, 1);
}

// Connections moved to a backend count as waiting at that backend, also after a change of the
// service, because no report contains them yet.
TEST(steals_keep_moved_connections_through_reloads) {
	struct own *own = *state;
	const uint32_t room = 3 * 3; // room of three thieves

	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, 0, 3);
	}
	report(own, VICTIM, 3, 3);
	begin_flows(own, 100);
	run_until_ended(own, room);
	assert_int_equal(own->request_count, room);
	own->config->services[0].steal.after_ms++;
	configure(own);
	run_for(own, WEIR_ROUND_MS * 3);
	assert_int_equal(own->request_count, room);
	assert_int_equal(flows_at(own, VICTIM), 100 - room);
}

// Another process has given the ids to other backends: the state of a backend is not applied to the
// new owner of its id.
TEST(steals_drop_the_state_of_previous_owners_of_ids) {
	struct own *own = *state;
	uint64_t end;

	own->result = WEIR_AGENT_STEAL_OFF; // the agent gets no request for a second
	begin_flows(own, 3);
	run_until_ended(own, 3);
	own->result = WEIR_AGENT_STEAL_NOTHING;
	end = now_ms() + 600;
	weir_flow_steals_clear(own->steals);
	run_for(own, WEIR_ROUND_MS * 2);
	assert_int_equal(ended(own), 3);
	configure(own);
	while (ended(own) < 6 && now_ms() < end) {
		run_for(own, 5);
	}
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
	// the counts of the service remain
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_OFF], 3);
}

// An abandoned request waits for the agent's answer for a while: another request for the flow fails
// because of it, or for lack of room. This does not count as a silent agent.
TEST(steals_do_not_count_requests_abandoned_by_a_reload_as_failures) {
	static const int errors[] = {-EALREADY, -EBUSY};
	struct own *own = *state;
	uint64_t before;

	begin_flows(own, 3);
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		own->ask_error = errors[i];
		before = ended(own);
		run_until_ended(own, before + 9); // with a pause it would get three requests
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 0);
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], ended(own));
	}
	own->ask_error = 0;
	run_until_ended(own, ended(own) + 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
}

// The agent has permitted the steal, and the request to the worker is sent: the reload has no
// effect on this steal.
TEST(steals_abandoned_late_by_a_reload_are_executed) {
	struct own *own = *state;

	hold_answers(own, 3);
	own->workers = SILENT;
	answer_all(own);
	own->config->services[0].steal.after_ms ^= 1;
	configure(own);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], 3);
	assert_int_equal(flows_at(own, VICTIM), 3);
	own->workers = ANSWER;
	run_for(own, 5);
	assert_int_equal(flows_at(own, VICTIM), 0);
	assert_int_equal(ended(own), 3);
}

// Requests abandoned by the removal of a backend show its name, also when its id is free.
TEST(steals_name_a_removed_backend) {
	struct own *own = *state;
	const struct weir_flow_steals_event *event = NULL;
	struct weir_backend_state gone;

	hold_answers(own, 3);
	lab_remove_backend(own->config, 0, VICTIM);
	lab_apply(&own->lab, own->config);
	configure(own);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], 3);
	lab_settle(&own->lab);
	assert_int_equal(weir_tables_backend(own->lab.tables, VICTIM, &gone), -ENOENT);
	for (uint32_t i = 0; i < 3; i++) {
		assert_true(weir_flow_steals_recent(own->steals, i, &event));
		assert_string_equal(event->from, "b1");
		assert_true(event->to[0] == 'b');
	}
}

// Without memory for a reload no connection is stolen. Counts and pauses of agents are kept until
// the retry.
TEST(steals_keep_state_through_a_reload_without_memory) {
	struct own *own = *state;
	struct weir_config_steal *steal = &own->config->services[0].steal;
	uint64_t before;
	long failed = 0;
	int r;

	own->result = WEIR_AGENT_STEAL_OFF;
	begin_flows(own, 3);
	run_until_ended(own, 3);
	before = shown(own).requests;
	do {
		assert_in_range(failed, 0, ALLOCATIONS_MOST);
		steal->after_ms ^= 1;
		starved_after(failed++);
		r = weir_flow_steals_configure(own->steals, own->lab.tables, own->config);
		starved_after(-1);
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(shown(own).enabled, r == 0);
		assert_int_equal(shown(own).requests, before);
		run_for(own, 5);
	} while (r < 0);
	assert_true(failed > 1);
	run_for(own, WEIR_ROUND_MS * 3);
	assert_int_equal(shown(own).requests, before); // the agent gets no request for a second
	own->result = WEIR_AGENT_STEAL_NOTHING;
	run_until_ended(own, ended(own) + 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
}
