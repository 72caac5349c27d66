// SPDX-License-Identifier: BSD-3-Clause
//
// What flow steals remember of reloads and agents.
#include "flow_steals_lab.h"

#include <errno.h>

#include "starved.h"

#define ALLOCATIONS_MOST 100 // that a reload may take

TEST_EACH(setup, teardown);

// A reload that does not touch the service: its round goes on, and so does its timer.
TEST(steals_go_on_through_other_reloads) {
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
		run_for(own, WEIR_FLOW_STEALS_MS / 3);
		configure(own);
	}
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 9);
}

// A reload of the service itself neither refills its rate nor has an agent asked that cannot help.
TEST(steals_remember_rate_and_pauses_through_reloads) {
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
	assert_in_range(own->asked_count, 2, 2 + 2 * (now_ms() - began_ms) / 1000 + 1);
	own->config->services[0].steal.per_second = 600;
	own->result = WEIR_AGENT_STEAL_OFF;
	configure(own);
	while (own->lines == 0) {
		run_for(own, 5);
	}
	own->asked_count = own->answered = 0;
	for (end = now_ms() + 600; now_ms() < end;) { // it is not asked for a second
		run_for(own, 150);
		own->config->services[0].steal.after_ms ^= 1;
		configure(own);
	}
	assert_int_equal(own->asked_count, 0);
	assert_int_equal(own->lines, 1);
}

// What an agent cannot do is said once, and it is asked less and less often, also if it says no to
// some for another reason.
TEST(steals_ask_less_often_whatever_else_is_said) {
	struct own *own = *state;
	uint64_t end = now_ms() + 60000;
	uint32_t rounds = 0, asked;

	own->result = WEIR_AGENT_STEAL_COOKIES;
	begin_flows(own, 2);
	while (rounds < 3 && now_ms() < end) {
		asked = own->asked_count;
		run_for(own, 5);
		rounds += own->asked_count > asked;
		own->result = own->asked_count % 2 == 0 ? WEIR_AGENT_STEAL_COOKIES
							: WEIR_AGENT_STEAL_RUNNING;
	}
	assert_int_equal(rounds, 3);
	assert_int_equal(own->lines, 1);
}

// What was moved to a backend counts as waiting there, also when the service changes: no report has
// it yet.
TEST(steals_remember_what_was_moved_through_reloads) {
	struct own *own = *state;
	const uint32_t room = 3 * 3; // of three thieves

	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, id == VICTIM ? 3 : 0, 3);
	}
	begin_flows(own, 100);
	run_until_ended(own, room);
	assert_int_equal(own->asked_count, room);
	own->config->services[0].steal.after_ms++;
	configure(own);
	run_for(own, WEIR_FLOW_STEALS_MS * 3);
	assert_int_equal(own->asked_count, room);
	assert_int_equal(flows_at(own, VICTIM), 100 - room);
}

// Another process has given the ids to other backends: what is known of one is not held against the
// one that has its id now.
TEST(steals_forget_who_had_the_ids) {
	struct own *own = *state;
	uint64_t end;

	own->result = WEIR_AGENT_STEAL_OFF; // it is not asked for a second
	begin_flows(own, 3);
	run_until_ended(own, 3);
	own->result = WEIR_AGENT_STEAL_NOTHING;
	end = now_ms() + 600;
	weir_flow_steals_forget(own->steals);
	run_for(own, WEIR_FLOW_STEALS_MS * 2);
	assert_int_equal(ended(own), 3);
	configure(own);
	while (ended(own) < 6 && now_ms() < end) {
		run_for(own, 5);
	}
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_OFF], 3); // the service's remain
}

// What a reload has abandoned waits for the agent's answer for a while: another request for the
// flow finds it there, or no place. The agent is not taken for silent.
TEST(steals_blame_no_agent_for_what_a_reload_abandoned) {
	static const int errors[] = {-EALREADY, -EBUSY};
	struct own *own = *state;
	uint64_t before;

	begin_flows(own, 3);
	for (unsigned int i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
		own->ask_error = errors[i];
		before = ended(own);
		run_until_ended(own, before + 9); // with a pause it would be asked three times
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 0);
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], ended(own));
	}
	own->ask_error = 0;
	run_until_ended(own, ended(own) + 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
}

// The agent has said yes, and the worker was asked: it need not know of the reload.
TEST(steals_that_a_reload_abandons_late_are_made) {
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

// Requests that the removal of a backend has abandoned name it, also when its id is free.
TEST(steals_name_a_backend_that_has_gone) {
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

// Without memory for a reload nobody steals. What was counted, and which agents are not asked, is
// there when it is tried again.
TEST(steals_remember_through_a_reload_without_memory) {
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
	run_for(own, WEIR_FLOW_STEALS_MS * 3);
	assert_int_equal(shown(own).requests, before); // the agent is not asked for a second
	own->result = WEIR_AGENT_STEAL_NOTHING;
	run_until_ended(own, ended(own) + 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 3);
}
