// SPDX-License-Identifier: BSD-3-Clause
//
// Tests rounds of flow steals: requests to agents, and their results.
#include "flow_steals_lab.h"

#include <errno.h>

TEST_EACH(setup, teardown);

TEST(steals_spread_waiting_flows_over_the_others) {
	struct own *own = *state;
	const struct weir_flow_steals_event *event;

	begin_flows(own, 18);
	run_until_ended(own, 18);
	assert_int_equal(shown(own).requests, 18);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], 18);
	assert_int_equal(flows_at(own, VICTIM), 0);
	assert_in_range(flows_at(own, 0), 4, 8);
	assert_in_range(flows_at(own, 2), 4, 8);
	assert_in_range(flows_at(own, 3), 4, 8);
	assert_in_range(own->widest, 1, WEIR_WAITING_LINES);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
	assert_true(weir_flow_steals_recent(own->steals, 17, &event));
	assert_false(weir_flow_steals_recent(own->steals, 18, &event));
	assert_string_equal(event->service, "s0");
	assert_string_equal(event->from, "b1");
	assert_int_equal(event->outcome, WEIR_FLOW_STEAL_MOVED);
	assert_int_equal(event->reason, WEIR_FLOW_STEAL_FOR_ACCEPT_QUEUE);
	assert_int_equal(event->vip_port, 80);
	assert_int_equal(event->client.bytes[0], 192);
}

// The report of a full queue begins a round at once. The next regular round would begin a tenth of
// a second later.
TEST(steals_begin_with_the_report_of_a_full_queue) {
	struct own *own = *state;
	uint32_t within = 0;

	for (int i = 0; i < 20; i++) {
		uint64_t reported_ms;

		report(own, VICTIM, 0, 10);
		run_for(own, 130); // a round without a victim has just ended, or ends soon
		begin_flows(own, 1);
		reported_ms = now_ms();
		report(own, VICTIM, 10, 10);
		run_until_ended(own, (uint64_t)i + 1);
		within += own->requested_ms - reported_ms < 30;
	}
	assert_true(within >= 15);
}

// A round finds connections that have not waited long enough. The next round begins as soon as they
// have waited long enough, and not at the next tenth of a second.
TEST(steals_begin_when_connections_have_waited) {
	struct own *own = *state;
	uint32_t within = 0;

	for (int i = 0; i < 20; i++) {
		uint64_t due_ms;

		begin_flows(own, 1);
		own->syn_ms = now_ms() - 300 - 5 * (uint64_t)i;
		due_ms = own->syn_ms + 500;
		run_until_ended(own, (uint64_t)i + 1);
		assert_true(own->requested_ms >= due_ms);
		within += own->requested_ms - due_ms < 45; // rounds are timed in units of 16 ms
	}
	assert_true(within >= 15);
}

static void count_flows(struct own *own, uint16_t backend, uint64_t new_flows, uint64_t half_open) {
	struct weir_share_counters *of =
		weir_segment_backend_counters(own->lab.segment, 1, backend);

	of->new_flows += new_flows;
	of->half_open = half_open;
}

// The queue that the victim reported is not full. But the handshakes of its clients do not
// complete, while all other backends accept connections.
TEST(steals_relieve_a_backend_that_accepts_nothing) {
	struct own *own = *state;
	const struct weir_flow_steals_event *event;
	struct weir_flow_steals_relieved relieved;
	uint32_t place = 0;

	report(own, VICTIM, 0, 10);
	run_for(own, 300);
	assert_false(shown(own).saturated);
	assert_false(weir_flow_steals_relieved(own->steals, 0, &(uint32_t){0}, &relieved));
	for (uint16_t id = 0; id < 4; id++) {
		count_flows(own, id, 18, id == VICTIM ? 18 : 0);
	}
	begin_flows(own, 18);
	run_until_ended(own, 18);
	assert_int_equal(flows_at(own, VICTIM), 0);
	assert_true(weir_flow_steals_relieved(own->steals, 0, &place, &relieved));
	assert_string_equal(relieved.name, "b1");
	assert_int_equal(relieved.reason, WEIR_FLOW_STEAL_FOR_HALF_OPEN);
	assert_int_equal(relieved.half_open, 18);
	assert_false(weir_flow_steals_relieved(own->steals, 0, &place, &relieved));
	assert_false(weir_flow_steals_relieved(own->steals, 1, &(uint32_t){0}, &relieved));
	for (uint32_t n = 0; n < 18; n++) {
		assert_true(weir_flow_steals_recent(own->steals, n, &event));
		assert_int_equal(event->reason, WEIR_FLOW_STEAL_FOR_HALF_OPEN);
	}
	count_flows(own, VICTIM, 0, 0);
	for (uint64_t end = now_ms() + 5000; shown(own).saturated && now_ms() < end;) {
		run_for(own, 5);
	}
	assert_false(weir_flow_steals_relieved(own->steals, 0, &(uint32_t){0}, &relieved));
}

// Half-open flows that were moved to a backend do not make it a victim. They are shown separately.
TEST(steals_show_half_open_flows_that_were_moved) {
	struct own *own = *state;
	struct weir_flow_steals_relieved relieved = {.name = ""};

	begin_flows(own, 18);
	run_until_ended(own, 18);
	assert_true(flows_at(own, 2) > 0);
	for (uint32_t n = 0; n < own->flows; n++) {
		own->flow[n].there = false; // agents get no further requests about these flows
	}
	report(own, VICTIM, 0, 10);
	report(own, 2, 10, 10);
	count_flows(own, 2, 6, 6);
	for (uint64_t end = now_ms() + 900; relieved.half_open == 0 && now_ms() < end;) {
		run_for(own, 5);
		(void)weir_flow_steals_relieved(own->steals, 0, &(uint32_t){0}, &relieved);
	}
	assert_string_equal(relieved.name, "b2");
	assert_int_equal(relieved.half_open, 6);
}

TEST(steals_show_each_relieved_backend_once) {
	static const char *const names[] = {"b0", "b1", "b3"};
	struct own *own = *state;
	struct weir_flow_steals_relieved relieved;
	uint32_t place = 0;

	report(own, 0, 10, 10);
	report(own, 3, 10, 10);
	run_for(own, WEIR_ROUND_MS * 3);
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		assert_true(weir_flow_steals_relieved(own->steals, 0, &place, &relieved));
		assert_string_equal(relieved.name, names[i]);
	}
	assert_false(weir_flow_steals_relieved(own->steals, 0, &place, &relieved));
	assert_false(weir_flow_steals_relieved(own->steals, 0, &place, &relieved));
}

// In a round a backend gets no more connections than its accept queue has room for. An agent gets
// no more requests than its limit.
TEST(steals_leave_room_in_the_queues) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 400);
	for (int turn = 0; turn < 50 && own->request_count < WEIR_FLOW_STEALS_OF_AGENT; turn++) {
		run_for(own, 200);
	}
	assert_int_equal(own->request_count, WEIR_FLOW_STEALS_OF_AGENT);
	weir_flow_steals_abandon(own->steals); // end the round; the next round begins
	own->request_count = own->answered = 0;
	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, id == VICTIM ? 3 : 0, 3);
	}
	while (own->request_count == 0) { // thieves pause after refusals of their victims
		run_for(own, 5);
	}
	run_for(own, 200);
	assert_int_equal(own->request_count, 3 * 3);
}

TEST(steals_send_no_request_without_need_or_room) {
	struct own *own = *state;

	begin_flows(own, 20);
	// below half of the threshold, so the backend is no longer a victim
	report(own, VICTIM, 3, 10);
	run_for(own, 300);
	assert_int_equal(own->request_count, 0);
	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, 5, 10); // half full
	}
	report(own, VICTIM, 10, 10);
	run_for(own, 300);
	assert_int_equal(own->request_count, 0);
	// backends have empty queues, but get no new flows because they drain
	for (uint16_t id = 0; id < 4; id++) {
		report(own, id, id == VICTIM ? 10 : 0, 10);
		weir_tables_set_admin(
			own->lab.tables, id, id == VICTIM ? WEIR_ADMIN_READY : WEIR_ADMIN_DRAIN);
	}
	lab_publish(&own->lab);
	run_for(own, 300);
	assert_int_equal(own->request_count, 0);
	// one backend accepts new flows now
	weir_tables_set_admin(own->lab.tables, 2, WEIR_ADMIN_READY);
	lab_publish(&own->lab);
	run_until_ended(own, 10);
	assert_int_equal(flows_at(own, 0), 0);
	assert_int_equal(flows_at(own, 3), 0);
	assert_in_range(flows_at(own, 2), 10, 20);
}

TEST(steals_count_refusals_of_agents) {
	static const struct {
		enum weir_agent_steal_result result;
		enum weir_flow_steal_outcome outcome;
		bool pauses; // whether the agent then gets no requests for a while
		bool logged; // whether the remedy is logged, in one line
	} cases[] = {
		{WEIR_AGENT_STEAL_RUNNING, WEIR_FLOW_STEAL_RUNNING, false, false},
		{WEIR_AGENT_STEAL_UNSETTLED, WEIR_FLOW_STEAL_UNSETTLED, false, false},
		{WEIR_AGENT_STEAL_LATE, WEIR_FLOW_STEAL_LATE, false, false},
		{WEIR_AGENT_STEAL_COOKIES, WEIR_FLOW_STEAL_COOKIES, true, true},
		{WEIR_AGENT_STEAL_NO_LISTENER, WEIR_FLOW_STEAL_NO_LISTENER, true, true},
		{WEIR_AGENT_STEAL_CANNOT_TELL, WEIR_FLOW_STEAL_CANNOT_TELL, true, true},
		{WEIR_AGENT_STEAL_OFF, WEIR_FLOW_STEAL_OFF, true, true},
		{WEIR_AGENT_STEAL_NO_RESULT, WEIR_FLOW_STEAL_SILENT, true, false},
	};

	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		void *lab = NULL;
		struct own *own;

		setup(&lab);
		own = lab;
		own->result = cases[i].result;
		begin_flows(own, 3);
		run_until_ended(own, 3);
		run_for(own, 600);
		assert_int_equal(shown(own).outcomes[cases[i].outcome], ended(own));
		assert_int_equal(flows_at(own, VICTIM), 3);
		assert_int_equal(own->lines, cases[i].logged);
		if (cases[i].pauses) {
			assert_int_equal(ended(own), 3);
		} else {
			assert_true(ended(own) > 3);
		}
		teardown(&lab);
	}
}

TEST(steals_treat_a_missing_answer_as_refusal) {
	struct own *own = *state;

	own->holds = true;
	begin_flows(own, 3);
	run_until_ended(own, 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 3);
	answer_all(own); // late answers
	run_for(own, 200);
	assert_int_equal(flows_at(own, VICTIM), 3);
	own->ask_error = -EAGAIN; // no request can be sent to the agent
	run_until_ended(own, 6);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 6);
}

// Answer a request a second time, or answer without a request. Such an answer must move nothing.
static void answer(struct own *own, uint64_t token) {
	const struct weir_agents_steal request = {.token = token};

	own->answer(own->answer_context, &request, WEIR_AGENT_STEAL_NOTHING, 1);
}

TEST(steals_accept_one_answer) {
	struct own *own = *state;

	own->copies = 3;
	begin_flows(own, 6);
	run_until_ended(own, 6);
	for (uint64_t token = 0; token < 1000; token++) {
		answer(own, token);
	}
	answer(own, own->requests[5].token + 1);
	run_for(own, 300);
	assert_int_equal(ended(own), 6);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
}

TEST(steals_count_refusals_of_workers) {
	static const enum weir_flow_steal_outcome outcomes[WEIR_MOVE_ANSWER_COUNT + 1] = {
		[WEIR_MOVE_NONE] = WEIR_FLOW_STEAL_NO_WORKER,
		[WEIR_MOVE_MOVED] = WEIR_FLOW_STEAL_MOVED,
		[WEIR_MOVE_CHANGED] = WEIR_FLOW_STEAL_CHANGED,
		[WEIR_MOVE_GONE] = WEIR_FLOW_STEAL_GONE,
		[WEIR_MOVE_UNUSABLE] = WEIR_FLOW_STEAL_UNUSABLE,
		[WEIR_MOVE_LIMIT] = WEIR_FLOW_STEAL_LIMIT,
		[WEIR_MOVE_LATE] = WEIR_FLOW_STEAL_LATE,
		[WEIR_MOVE_ANSWER_COUNT] = WEIR_FLOW_STEAL_NO_WORKER, // not a valid answer
	};

	for (int answer = 0; answer <= WEIR_MOVE_ANSWER_COUNT; answer++) {
		void *lab = NULL;
		struct own *own;

		setup(&lab);
		own = lab;
		own->move_answer = answer;
		begin_flows(own, 3);
		run_until_ended(own, 3);
		assert_int_equal(shown(own).outcomes[outcomes[answer]], ended(own));
		teardown(&lab);
	}
}

TEST(steals_end_when_workers_do_not_answer) {
	struct own *own = *state;
	uint64_t incomplete;

	hold_answers(own, 3);
	own->workers = SILENT;
	answer_all(own);
	run_until_ended(own, 3);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_NO_WORKER], 3);
	own->holds = false;
	incomplete = shown(own).incomplete;
	while (shown(own).incomplete == incomplete) { // a scan without answers also ends
		run_for(own, 5);
	}
	// Now the worker answers, also to a request that the agent had permitted but that has timed
	// out.
	own->workers = ANSWER;
	begin_flows(own, 3);
	run_until_ended(own, 6);
	assert_int_equal(flows_at(own, VICTIM), 0);
	for (uint32_t n = 0; n < own->flows; n++) {
		assert_int_equal(own->flow[n].moves, 1);
	}
}

TEST(steals_detect_an_older_dataplane) {
	struct own *own = *state;

	own->workers = OLD;
	begin_flows(own, 3);
	run_for(own, 300);
	assert_int_equal(own->request_count, 0);
	assert_true(weir_flow_steals_unsupported(own->steals));
}

// A request was abandoned by a reload, or by the loss of the dataplane. An answer that arrives
// later moves nothing.
TEST(steals_survive_reload_and_loss_of_the_dataplane) {
	struct own *own = *state;

	hold_answers(own, 3);
	own->config->services[0].steal.after_ms++;
	configure(own);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_ABANDONED], 3);
	assert_int_equal(shown(own).requests, 3);
	answer_all(own);
	run_for(own, 50);
	assert_int_equal(flows_at(own, VICTIM), 3);
	while (own->request_count < 6) {
		run_for(own, 5);
	}
	weir_flow_steals_abandon(own->steals);
	weir_mailboxes_bind(&own->mailboxes, NULL);
	answer_all(own);
	run_for(own, 300);
	assert_int_equal(own->request_count, 6);
	assert_int_equal(flows_at(own, VICTIM), 3);
	weir_mailboxes_bind(&own->mailboxes, own->lab.control);
	own->holds = false;
	run_until_ended(own, 9);
	assert_int_equal(flows_at(own, VICTIM), 0);
	own->config->services[0].steal.enabled = false;
	configure(own);
	assert_false(shown(own).enabled);
	assert_int_equal(shown(own).requests, 9);
	begin_flows(own, 3);
	run_for(own, 300);
	assert_int_equal(own->request_count, 9);
}

// A request cannot describe a flow with port 0, which clients may create. Such flows must not
// prevent requests for other flows.
TEST(steals_skip_flows_without_a_port) {
	struct own *own = *state;

	begin_flows(own, 1);
	own->flow[0].client_port = 0;
	for (uint32_t i = 1; i <= 4; i++) {
		begin_flows(own, 1);
		run_until_ended(own, i);
		assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_MOVED], i);
	}
	assert_int_equal(shown(own).requests, 4);
}

// A reload has abandoned a request, but the agent still has it. A new request for the flow is
// refused for this reason. This is not a failure of the agent.
TEST(steals_do_not_count_pending_requests_as_failures) {
	struct own *own = *state;

	own->ask_error = -EALREADY;
	begin_flows(own, 1);
	run_until_ended(own, 4);
	assert_int_equal(shown(own).outcomes[WEIR_FLOW_STEAL_SILENT], 0);
	own->ask_error = 0;
	run_until_ended(own, ended(own) + 1);
	assert_int_equal(flows_at(own, VICTIM), 0);
}

TEST(steals_keep_their_rate) {
	struct own *own = *state;
	uint64_t began_ms;

	own->config->services[0].steal.per_second = 5;
	own->result = WEIR_AGENT_STEAL_RUNNING;
	configure(own);
	begin_flows(own, 100);
	began_ms = now_ms();
	run_for(own, 1000);
	assert_in_range(own->request_count, 5, 5 + 5 * (now_ms() - began_ms) / 1000 + 1);
}
