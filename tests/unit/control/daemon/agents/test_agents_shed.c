// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of shed orders to an agent that the test simulates in the same process. An order is sent
// repeatedly until an answer reports that the agent has finished the order. Each order must end
// exactly once. If no such answer arrives, all connections of the order count as ended.
#include <errno.h>
#include <stdlib.h>

#include "agents_lab.h"

#define AGENT UINT64_C(0xa1)
#define CLOCK_MS 1000000 // clock of the agent in its answers to probes

struct own {
	struct lab lab;
	uint32_t ordered; // received orders
	uint64_t ids; // bitmap of the ids of received orders: bit id % 64
	struct weir_agent_shed order; // the last order
	struct weir_agent_shed_answer answer; // sent for each order if result is set
	uint32_t lost; // number of further orders that the agent does not answer
	// Counts and arguments of callbacks.
	uint32_t ended;
	struct weir_agents_shed_result result;
	bool order_again; // the callback sends another order
};

static const struct weir_agents_shed sample = {
	.backend = 5,
	.duration_ms = 1000,
	.count = 10,
	.rate_milli_per_s = 10000,
	.keep = 40,
	.idle_ms = 5000,
	.service = "a-service-with-a-name-of-more-than-31-characters",
	.bind_count = 1,
	.binds = {{.vip = {[10] = 0xff, [11] = 0xff, [12] = 198, [15] = 10},
		.port_first = 80,
		.port_last = 80}},
};

static void send_answer(struct lab *lab, const struct weir_agent_shed_answer *answer) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	weir_agent_shed_answer_encode(answer, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(bytes));
}

static void take_order(struct lab *lab, const uint8_t *bytes, size_t count) {
	struct own *own = (struct own *)lab;

	assert_int_equal(weir_agent_shed_decode(bytes, count, &lab->keys, &own->order),
		WEIR_AGENT_REFUSAL_NONE);
	own->ordered++;
	own->ids |= UINT64_C(1) << own->order.id % 64;
	if (own->lost > 0) {
		own->lost--;
	} else if (own->answer.result != WEIR_AGENT_SHED_NO_RESULT) {
		own->answer.agent = own->order.agent;
		own->answer.balancer = own->order.balancer;
		own->answer.id = own->order.id;
		send_answer(lab, &own->answer);
	}
}

static void on_ended(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result) {
	struct own *own = context;

	assert_int_equal(order->backend, sample.backend);
	own->ended++;
	own->result = *result;
	if (own->order_again) {
		own->order_again = false;
		assert_int_equal(weir_agents_order_shed(own->lab.agents, order), 0);
	}
}

static int setup(void **state) {
	static const struct weir_agent_keys none = {0};
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	lab_open(&own->lab);
	weir_agents_set_keys(own->lab.agents, &none); // no keys until start()
	weir_agents_on_shed_ended(own->lab.agents, on_ended, own);
	own->lab.answer.agent = AGENT;
	own->lab.answer.clock_ms = CLOCK_MS;
	own->lab.on_order = take_order;
	own->lab.order_kind = WEIR_AGENT_SHED;
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	lab_close(&own->lab);
	free(own);
	return 0;
}

TEST_EACH(setup, teardown);

static void start(struct lab *lab) {
	weir_agents_set_keys(lab->agents, &lab->keys);
	configure_slow(lab, sample.backend);
	UNTIL(lab, lab->answered > 0);
}

TEST(order_has_the_agents_process_and_deadline) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	own->answer.result = WEIR_AGENT_SHED_DONE;
	own->answer.ended = 7;
	own->answer.connections = 43;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	// the callback is never called within weir_agents_order_shed()
	assert_int_equal(own->ended, 0);
	UNTIL(lab, own->ended == 1);
	assert_true(own->order.agent == AGENT);
	assert_true(own->order.deadline_ms >= CLOCK_MS + sample.duration_ms);
	assert_string_equal(own->order.service, "a-service-with-a-name-of-more-t");
	assert_int_equal(own->order.count, 10);
	assert_int_equal(own->order.keep, 40);
	assert_memory_equal(own->order.binds, sample.binds, sizeof(sample.binds));
	assert_true(own->result.over && own->result.answered);
	assert_int_equal(own->result.ended, 7);
	assert_int_equal(own->result.connections, 43);
}

TEST(lost_order_is_sent_again_with_its_id) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	own->answer.result = WEIR_AGENT_SHED_DONE;
	own->answer.ended = 10;
	own->lost = 2;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->ordered, 3);
	assert_int_equal(__builtin_popcountll(own->ids), 1);
	assert_int_equal(own->result.ended, 10);
}

TEST(without_a_final_answer_all_connections_count) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	own->answer.result = WEIR_AGENT_SHED_ACTIVE;
	own->answer.ended = 3;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ended == 1);
	assert_true(own->ordered >= 4);
	assert_true(own->result.answered && !own->result.over);
	assert_int_equal(own->result.ended, 10);
	// The agent does not answer at all.
	own->lost = UINT32_MAX;
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ended == 2);
	assert_false(own->result.answered);
	assert_int_equal(own->result.ended, 10);
	// An agent that answers "late" may have carried out the order and discarded its result.
	own->lost = 0;
	own->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_LATE};
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ended == 3);
	assert_int_equal(own->result.ended, 10);
	own->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_OFF};
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ended == 4);
	assert_int_equal(own->result.ended, 0);
	assert_int_equal(own->result.result, WEIR_AGENT_SHED_OFF);
}

// A hook that hangs is killed at the deadline. The agent sends the final answer after the deadline.
TEST(final_answer_after_the_deadline_is_accepted) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_shed order = sample;
	uint64_t begun_ms;

	order.duration_ms = 300;
	own->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_ACTIVE, .ended = 7};
	start(lab);
	begun_ms = uv_hrtime() / 1000000;
	assert_int_equal(weir_agents_order_shed(lab->agents, &order), 0);
	UNTIL(lab, own->ordered > 0 && uv_hrtime() / 1000000 > begun_ms + order.duration_ms);
	own->answer.result = WEIR_AGENT_SHED_HOOK_FAILED;
	send_answer(lab, &own->answer);
	UNTIL(lab, own->ended == 1);
	if (!own->result.over) { // the machine was so slow that the order has timed out
		assert_true(uv_hrtime() / 1000000 >=
			    begun_ms + order.duration_ms + WEIR_AGENTS_SHED_LATE_MS);
		skip();
	}
	assert_int_equal(own->result.result, WEIR_AGENT_SHED_HOOK_FAILED);
	assert_int_equal(own->result.ended, 7);
}

TEST(answers_to_other_orders_are_refused) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agent_shed_answer other;

	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, own->ordered > 0);
	other = (struct weir_agent_shed_answer){.agent = AGENT,
		.balancer = own->order.balancer,
		.id = own->order.id + 1,
		.ended = 1,
		.result = WEIR_AGENT_SHED_DONE};
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 1);
	other.id = own->order.id;
	other.agent = AGENT + 1;
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 2);
	other.agent = AGENT;
	other.balancer++;
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_BALANCER) == 1);
	other.balancer--;
	other.ended = 11; // more than ordered
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_VALUE) == 1);
	other.ended = 5;
	other.result = WEIR_AGENT_SHED_ACTIVE;
	send_answer(lab, &other);
	other.ended = 4; // an older answer, which the previous answer has overtaken
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 3);
	assert_int_equal(own->ended, 0);
	other.ended = 6;
	other.result = WEIR_AGENT_SHED_DONE;
	send_answer(lab, &other);
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->result.ended, 6);
	send_answer(lab, &other); // a duplicate
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 4);
	assert_int_equal(own->ended, 1);
}

TEST(one_order_for_each_backend_at_a_time) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_shed wrong = sample;

	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -ENOENT);
	configure_slow(lab, sample.backend);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -ENOKEY);
	start(lab);
	wrong.idle_ms = 999;
	assert_int_equal(weir_agents_order_shed(lab->agents, &wrong), -EINVAL);
	wrong = sample;
	wrong.duration_ms = WEIR_AGENT_STEAL_AHEAD_MS + 1;
	assert_int_equal(weir_agents_order_shed(lab->agents, &wrong), -EINVAL);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -EALREADY);
	own->answer.result = WEIR_AGENT_SHED_DONE;
	own->order_again = true;
	UNTIL(lab, own->ended == 2);
	assert_int_equal(__builtin_popcountll(own->ids), 2);
}

TEST(order_ends_with_its_agent) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	UNTIL(lab, own->ended == 1);
	assert_false(own->result.answered);
	assert_int_equal(own->result.ended, 10);
}
