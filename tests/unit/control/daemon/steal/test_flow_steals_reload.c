// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the state of flow steals and of agents across reloads.
#include "flow_steals_lab.h"

#include <errno.h>

#include "starved.h"

#define ALLOCATIONS_MOST 100 // maximum number of allocations of a reload

TEST_EACH(setup, teardown);

// A reload does not change the service. The current round continues, and later rounds begin as
// before.
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

// A reload changes the service. The rate limit of its requests is not reset, and an agent that
// cannot help still pauses.
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

// An agent cannot help. This is logged once, and the agent gets fewer and fewer requests, even if
// it refuses some of them for another reason.
TEST(steals_become_less_frequent_for_any_refusal) {
	struct own *own = *state;
	uint64_t end = now_ms() + 60000;
	uint32_t rounds = 0, requests;

	own->result = WEIR_AGENT_STEAL_COOKIES;
	begin_flows(own, 2);
	while (rounds < 3 && now_ms() < end) {
		requests = own->request_count;
		run_for(own, 5);
		rounds += own->request_count > requests;
		own->result = own->request_count % 2 == 0 ? WEIR_AGENT_STEAL_COOKIES
							  : WEIR_AGENT_STEAL_RUNNING;
	}
	assert_int_equal(rounds, 3);
	assert_int_equal(own->lines, 1);
}

// Connections were moved to a backend, but no report of the backend contains them yet. The moved
// connections count as waiting at this backend, even after a reload that changes the service.
TEST(steals_keep_moved_connections_through_reloads) {
	struct own *own = *state;
	const uint32_t room = 3 * 3; // room in the queues of three thieves

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

// Another control process may have assigned an id to a different backend. The pause of the former
// backend must not apply to the new backend.
TEST(steals_drop_the_state_of_previous_owners_of_ids) {
	struct own *own = *state;
	uint64_t end;

	// after this refusal the agent gets no request for a second
	own->result = WEIR_AGENT_STEAL_OFF;
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

// A request that was abandoned by a reload still waits for the agent's answer. Until then another
// request for the same flow fails with -EALREADY or -EBUSY. This does not count as a missing answer
// of the agent.
TEST(steals_do_not_count_requests_abandoned_by_a_reload_as_failures) {
	static const int errors[] = {-EALREADY, -EBUSY};
	struct own *own = *state;
	uint64_t before;

	begin_flows(own, 3);
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		own->ask_error = errors[i];
		before = ended(own);
		// if the agent paused, it would get only three requests
		run_until_ended(own, before + 9);
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 0);
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], ended(own));
	}
	own->ask_error = 0;
	run_until_ended(own, ended(own) + 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
}

// The agent has permitted the steal, and the worker already has its request. A reload does not stop
// this steal.
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

// A backend is removed, and its requests are abandoned. The events still show its name, even when
// its id is free.
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

// A reload fails for lack of memory. No connections are stolen until the reload is retried.
// Counts and pauses are kept.
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
