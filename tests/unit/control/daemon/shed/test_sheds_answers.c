// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of sheds: answers of agents that are lost, late, busy, or refuse.
#include "sheds_lab.h"

#include <errno.h>
#include <string.h>

TEST_EACH(setup, teardown);

TEST(orders_without_an_answer_count_in_full) {
	struct shed_lab *test = *state;
	const struct weir_agents_shed_result lost = {.ended = 10};

	begin(test);
	answer(test, lost);
	assert_int_equal(first(test)->ended, 10);
	assert_int_equal(first(test)->level.flows, 60);
	second(test);
	assert_int_equal(first(test)->level.flows, 50); // 10 connections may have ended
	assert_int_equal(test->order.count, 10);
	answer(test, lost);
	// No flow is left above the mean, so no further connections are ended until the agent has
	// counted its connections.
	second(test);
	assert_int_equal(test->order.count, 0);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	second(test);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	second(test);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 20);
	assert_non_null(strstr(first(test)->why, "does not answer"));
}

TEST(agent_that_does_not_permit_ends_the_start) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result off = {
		.answered = true, .over = true, .result = WEIR_AGENT_SHED_OFF};

	assert_int_equal(start(test, 0, false), 0);
	answer(test, off);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "does not permit shedding"));
	assert_null(first(test));
	assert_int_equal(start(test, 0, false), 0);
	answer(test, (struct weir_agents_shed_result){.ended = 0});
	assert_string_equal(test->why,
		"its weir-agent answers probes, but did not answer the order within 1500 ms: it is "
		"busy, or its version does not support sheds");
	assert_null(first(test));
	assert_int_equal(test->begun, 2);
	// The agent withdraws the permission while the shed runs.
	begin_again(test);
	answer(test, off);
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
}

// An agent that answers "busy" has not counted its connections, so its answers must not end the
// shed.
TEST(busy_agent_is_waited_for) {
	struct shed_lab *test = *state;

	begin(test);
	for (uint32_t i = 0; i < 10; i++) {
		answer(test, busy);
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
		assert_string_equal(first(test)->why,
			"waiting: its weir-agent is still executing another order");
		assert_int_equal(first(test)->connections, 60);
		second(test);
		assert_int_equal(test->order.count, 10);
	}
	answer(test, result_of(50, 10));
	assert_int_equal(first(test)->connections, 50);
	assert_int_equal(first(test)->ended, 10);
}

TEST(busy_agent_ends_the_start) {
	struct shed_lab *test = *state;

	assert_int_equal(start(test, 0, false), 0);
	answer(test, busy);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "of another balancer, or of another service"));
	assert_null(first(test));
}

// If a start fails, the last shed of the backend is kept, and also the number of flows that it has
// ended.
TEST(failed_start_keeps_the_last_shed) {
	struct shed_lab *test = *state;

	begin(test);
	answer(test, result_of(50, 10));
	assert_int_equal(weir_sheds_stop(test->sheds, "s0", "b0"), 0);
	answer(test, result_of(50, 0));
	assert_int_equal(start(test, 0, false), 0);
	assert_int_equal(first(test)->state, WEIR_SHED_STARTING);
	assert_int_equal(first(test)->level.flows, 50);
	answer(test, busy);
	assert_int_equal(first(test)->state, WEIR_SHED_STOPPED);
	assert_int_equal(first(test)->ended, 10);
	begin_again(test);
	assert_int_equal(first(test)->level.flows, 50);
	assert_int_equal(first(test)->ended, 0);
}

// The answer "late" contains no counts of connections. All connections of its order count as
// ended.
TEST(late_answers_are_no_answers) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result late = {.answered = true,
		.over = true,
		.result = WEIR_AGENT_SHED_LATE,
		.method = WEIR_AGENT_SHED_IDLE};

	assert_int_equal(start(test, 0, false), 0);
	answer(test, late);
	assert_int_equal(test->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(test->why, "did not answer the order"));
	begin_again(test);
	late.ended = 1;
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(first(test)->state, WEIR_SHED_RUNNING);
		answer(test, late);
		assert_int_equal(first(test)->connections, 60);
		second(test);
	}
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_int_equal(first(test)->ended, 5);
}

// A shed is abandoned while its order is in flight. The result of the order still counts for this
// shed, even if another shed of the backend was started.
TEST(late_result_counts_for_its_shed) {
	struct shed_lab *test = *state;
	struct weir_agents_shed order;

	begin(test);
	weir_sheds_abandon(test->sheds, "");
	order = test->order;
	test->refuse = -EALREADY; // the agents refuse further orders until the order is over
	assert_int_equal(start(test, 0, false), 0);
	test->ended(test->context, &order,
		&(struct weir_agents_shed_result){.answered = true,
			.over = true,
			.result = WEIR_AGENT_SHED_DONE,
			.ended = 7});
	test->refuse = -EBUSY;
	assert_int_equal(first(test)->state, WEIR_SHED_STARTING);
	test->refuse = 0;
	second(test);
	answer(test, busy); // the start fails
	assert_int_equal(first(test)->ended, 7);
}

TEST(hook_that_fails_ends_the_shed) {
	struct shed_lab *test = *state;
	struct weir_agents_shed_result hook = result_of(60, 0);

	hook.method = WEIR_AGENT_SHED_HOOK;
	assert_int_equal(start(test, 0, false), 0);
	answer(test, hook);
	hook.result = WEIR_AGENT_SHED_HOOK_FAILED;
	hook.ended = hook.leaving = 7;
	answer(test, hook);
	assert_int_equal(first(test)->state, WEIR_SHED_FAILED);
	assert_non_null(strstr(first(test)->why, "--shed-hook failed"));
	assert_int_equal(first(test)->ended, 7);
}
