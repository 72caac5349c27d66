// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of steal requests to an agent that the test simulates in the same process. Each request
// must end exactly once, either with the answer that matches it, or without an answer.
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents_lab.h"

#define AGENT UINT64_C(0xa1)
#define CLOCK_MS 1000000 // clock of the agent in its answers to probes

struct own {
	struct lab lab;
	int elsewhere; // socket of another process on the agent's host
	uint32_t requests; // received steal requests
	struct weir_agent_steal request; // the last request
	// Counts and arguments of callbacks.
	uint32_t ended;
	struct weir_agents_steal steal;
	enum weir_agent_steal_result result;
	uint32_t duration_ms;
	bool ask_again; // whether the callback sends another request
};

static const struct weir_agents_steal sample = {
	.backend = 5,
	.client_port = 50000,
	.vip_port = 80,
	.client = {.family = 4, .bytes = {203, 0, 113, 7}},
	.vip = {.family = 4, .bytes = {198, 51, 100, 10}},
	.timeout_ms = 2000,
	.token = 0x1234,
};

static void take_request(struct lab *lab, const uint8_t *bytes, size_t count) {
	struct own *own = (struct own *)lab;

	assert_int_equal(weir_agent_steal_decode(bytes, count, &lab->keys, &own->request),
		WEIR_AGENT_REFUSAL_NONE);
	own->requests++;
}

static void on_steal_ended(void *context, const struct weir_agents_steal *steal,
	enum weir_agent_steal_result result, uint32_t duration_ms) {
	struct own *own = context;

	own->ended++;
	own->steal = *steal;
	own->result = result;
	own->duration_ms = duration_ms;
	if (own->ask_again) {
		own->ask_again = false;
		assert_int_equal(weir_agents_request_steal(own->lab.agents, steal), 0);
	}
}

static uint64_t in_flight(const struct lab *lab) {
	const struct weir_agents_counts counts = weir_agents_counts(lab->agents);
	uint64_t ended = 0;

	for (uint32_t i = 0; i < WEIR_AGENT_STEAL_RESULT_COUNT; i++) {
		ended += counts.steal_results[i];
	}
	return counts.steals - ended;
}

static int setup(void **state) {
	struct own *own = calloc(1, sizeof(*own));

	assert_non_null(own);
	lab_open(&own->lab);
	weir_agents_on_steal_ended(own->lab.agents, on_steal_ended, own);
	own->lab.answer.agent = AGENT;
	own->lab.answer.clock_ms = CLOCK_MS;
	own->lab.on_order = take_request;
	own->lab.order_kind = WEIR_AGENT_STEAL;
	own->elsewhere = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(own->elsewhere >= 0);
	configure_slow(&own->lab, sample.backend);
	*state = own;
	return 0;
}

static int teardown(void **state) {
	struct own *own = *state;

	lab_close(&own->lab);
	close(own->elsewhere);
	free(own);
	return 0;
}

// Run until the agent has answered and no probe is in flight.
static void hear(struct lab *lab) {
	struct weir_agents_status status;

	UNTIL(lab, weir_agents_status(lab->agents, 5, &status) == 0 && status.answers);
}

// Send a request, and wait until it has reached the agent.
static void ask(struct own *own, const struct weir_agents_steal *steal) {
	uint32_t requests = own->requests;

	assert_int_equal(weir_agents_request_steal(own->lab.agents, steal), 0);
	UNTIL(&own->lab, own->requests > requests);
}

// Returns an answer to the last request.
static struct weir_agent_steal_answer answer_of(
	const struct own *own, enum weir_agent_steal_result result) {
	struct weir_agent_steal_answer answer;

	weir_agent_steal_answer_begin(&own->request, &answer);
	answer.result = (uint8_t)result;
	return answer;
}

static void send_answer(struct lab *lab, const struct weir_agent_steal_answer *answer) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	weir_agent_steal_answer_encode(answer, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(bytes));
}

static struct weir_agents_counts counts(const struct lab *lab) {
	return weir_agents_counts(lab->agents);
}

// Send an answer. Check that it is refused for this reason, and that the request is still pending.
static void expect_refused(struct own *own, const struct weir_agent_steal_answer *answer,
	enum weir_agent_refusal refusal) {
	uint64_t before = refused(&own->lab, refusal);
	uint32_t ended = own->ended;

	send_answer(&own->lab, answer);
	UNTIL(&own->lab, refused(&own->lab, refusal) == before + 1);
	assert_int_equal(own->ended, ended);
}

// --- requests -----------------------------------------------------------------------------

TEST_EACH(setup, teardown);

TEST(request_contains_the_given_fields) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal other = sample;
	const uint8_t *bytes;
	uint64_t first;

	hear(lab);
	ask(own, &sample);
	assert_true(own->request.agent == AGENT && own->request.balancer != 0);
	assert_int_equal(own->request.protocol, 6);
	assert_int_equal(own->request.client_port, 50000);
	assert_int_equal(own->request.vip_port, 80);
	assert_int_equal(own->request.recipient_port, lab->port);
	assert_int_equal(weir_agent_address_family(own->request.client, &bytes), 4);
	assert_memory_equal(bytes, "\xcb\x00\x71\x07", 4);
	assert_int_equal(weir_agent_address_family(own->request.vip, &bytes), 4);
	assert_memory_equal(bytes, "\xc6\x33\x64\x0a", 4);
	assert_int_equal(weir_agent_address_family(own->request.recipient, &bytes), 4);
	assert_memory_equal(bytes, "\x7f\x00\x00\x01", 4);
	// The deadline is a time of the agent's clock, which has advanced since the agent's last
	// answer.
	assert_true(own->request.deadline_ms >= CLOCK_MS + sample.timeout_ms);
	assert_true(own->request.deadline_ms < CLOCK_MS + sample.timeout_ms + 60000);
	first = own->request.id;
	assert_true(first != 0);
	other.client_port++;
	ask(own, &other);
	assert_true(own->request.id == first + 1);
	assert_int_equal(in_flight(lab), 2);
	assert_int_equal(counts(lab).steals, 2);
}

TEST(flows_of_ipv6_can_be_requested) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;
	const uint8_t *bytes;

	hear(lab);
	steal.client = (struct weir_address){.family = 6, .bytes = {0x20, 1, [15] = 1}};
	steal.vip = (struct weir_address){.family = 6, .bytes = {0x20, 1, [15] = 2}};
	ask(own, &steal);
	assert_int_equal(weir_agent_address_family(own->request.client, &bytes), 6);
	assert_memory_equal(bytes, steal.client.bytes, 16);
	assert_memory_equal(own->request.vip, steal.vip.bytes, 16);
}

TEST(invalid_requests_are_refused) {
	static const struct weir_agent_keys none = {0};
	struct lab *lab = *state;

#define EXPECT(field, value, error) \
	do { \
		struct weir_agents_steal steal = sample; \
		steal.field = value; \
		assert_int_equal(weir_agents_request_steal(lab->agents, &steal), error); \
	} while (0)
	EXPECT(token, 0, -EAGAIN); // the agent has not answered yet
	hear(lab);
	EXPECT(backend, 4, -ENOENT);
	EXPECT(backend, 60000, -ENOENT);
	EXPECT(client.family, 6, -EINVAL);
	EXPECT(client.family, 0, -EINVAL);
	EXPECT(client_port, 0, -EINVAL);
	EXPECT(vip_port, 0, -EINVAL);
	EXPECT(timeout_ms, 0, -EINVAL);
	EXPECT(timeout_ms, WEIR_AGENT_STEAL_AHEAD_MS + 1, -EINVAL);
	weir_agents_set_keys(lab->agents, &none);
	EXPECT(token, 0, -ENOKEY);
	weir_agents_set_keys(lab->agents, &lab->keys);
	EXPECT(token, 0, 0);
	EXPECT(token, 1, -EALREADY); // a second request for the same flow
	EXPECT(client_port, 50001, 0);
	EXPECT(vip_port, 81, 0);
#undef EXPECT
	assert_int_equal(in_flight(lab), 3);
}

TEST(silent_agent_gets_no_request) {
	struct lab *lab = *state;
	struct weir_agents_status status;

	hear(lab);
	lab->answers = false;
	UNTIL(lab, weir_agents_status(lab->agents, 5, &status) == 0 && !status.answers);
	assert_int_equal(weir_agents_request_steal(lab->agents, &sample), -EAGAIN);
}

TEST(table_of_requests_is_bounded) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;

	hear(lab);
	steal.timeout_ms = 50;
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		steal.client_port = (uint16_t)(1000 + i);
		assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	}
	steal.client_port = 999;
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), -EBUSY);
	UNTIL(lab, own->ended == WEIR_AGENTS_STEALS_MAX);
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	assert_int_equal(
		counts(lab).steal_results[WEIR_AGENT_STEAL_NO_RESULT], WEIR_AGENTS_STEALS_MAX);
}

// --- answers ------------------------------------------------------------------------------

TEST(every_result_is_reported_once) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	hear(lab);
	for (uint32_t result = 1; result < WEIR_AGENT_STEAL_RESULT_COUNT; result++) {
		struct weir_agent_steal_answer answer;

		ask(own, &sample);
		answer = answer_of(own, (enum weir_agent_steal_result)result);
		send_answer(lab, &answer);
		UNTIL(lab, own->ended == result);
		assert_int_equal(own->result, result);
		assert_true(own->steal.token == sample.token);
		assert_int_equal(own->steal.client_port, sample.client_port);
		assert_int_equal(counts(lab).steal_results[result], 1);
	}
	assert_int_equal(in_flight(lab), 0);
}

TEST(silent_agent_ends_at_the_timeout) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;

	hear(lab);
	steal.timeout_ms = 60;
	ask(own, &steal);
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NO_RESULT);
	assert_true(own->duration_ms >= 60);
	assert_true(own->steal.token == sample.token);
	assert_int_equal(counts(lab).steal_results[WEIR_AGENT_STEAL_NO_RESULT], 1);
}

TEST(late_answer_is_counted_and_ignored) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;

	hear(lab);
	steal.timeout_ms = 40;
	ask(own, &steal);
	answer = answer_of(own, WEIR_AGENT_STEAL_REMOVED);
	UNTIL(lab, own->ended == 1);
	expect_refused(own, &answer, WEIR_AGENT_REFUSAL_STEAL);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NO_RESULT);
	// The late answer does not match the next request for the flow either.
	ask(own, &sample);
	expect_refused(own, &answer, WEIR_AGENT_REFUSAL_STEAL);
}

// The loop is busy until after the timeout, so the answer is late. It must be refused, because the
// caller may already have acted on the timeout.
TEST(answer_that_waited_for_the_loop_is_late) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;

	hear(lab);
	steal.timeout_ms = 60;
	ask(own, &steal);
	answer = answer_of(own, WEIR_AGENT_STEAL_REMOVED);
	send_answer(lab, &answer);
	usleep(80000);
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NO_RESULT);
}

TEST(second_answer_is_counted_and_ignored) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agent_steal_answer answer;

	hear(lab);
	ask(own, &sample);
	answer = answer_of(own, WEIR_AGENT_STEAL_RUNNING);
	send_answer(lab, &answer);
	UNTIL(lab, own->ended == 1);
	answer.result = WEIR_AGENT_STEAL_REMOVED;
	expect_refused(own, &answer, WEIR_AGENT_REFUSAL_STEAL);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_RUNNING);
}

TEST(unrelated_answers_are_ignored) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agent_steal_answer right, wrong;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	hear(lab);
	ask(own, &sample);
	right = answer_of(own, WEIR_AGENT_STEAL_REMOVED);
	wrong = right;
	wrong.id++;
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_STEAL);
	wrong = right;
	wrong.agent++; // an answer from another agent process
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_STEAL);
	wrong = right;
	wrong.balancer++;
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_BALANCER);
	wrong = right;
	wrong.client_port++;
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_FLOW);
	wrong = right;
	wrong.vip[15]++;
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_FLOW);
	wrong = right;
	wrong.result = 0;
	expect_refused(own, &wrong, WEIR_AGENT_REFUSAL_VALUE);
	// The answer comes from a port other than the agent's port.
	weir_agent_steal_answer_encode(&right, &lab->keys.key[0], bytes);
	assert_int_equal(sendto(own->elsewhere, bytes, sizeof(bytes), 0,
				 (struct sockaddr *)&lab->from, sizeof(lab->from)),
		sizeof(bytes));
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_SENDER] == 1);
	bytes[100] ^= 1;
	send_bytes(lab, bytes, sizeof(bytes));
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_MAC] == 1);
	assert_int_equal(own->ended, 0);
	send_answer(lab, &right);
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_REMOVED);
}

// --- lifetime -----------------------------------------------------------------------------

TEST(callback_may_make_another_request) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agent_steal_answer answer;
	uint64_t first;

	hear(lab);
	own->ask_again = true;
	ask(own, &sample);
	first = own->request.id;
	answer = answer_of(own, WEIR_AGENT_STEAL_UNSETTLED);
	send_answer(lab, &answer);
	UNTIL(lab, own->requests == 2);
	assert_true(own->request.id == first + 1);
	answer = answer_of(own, WEIR_AGENT_STEAL_NOTHING);
	send_answer(lab, &answer);
	UNTIL(lab, own->ended == 2);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NOTHING);
}

TEST(request_to_a_removed_agent_ends) {
	struct own *own = *state;
	struct lab *lab = &own->lab;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;
	uint64_t balancer;

	hear(lab);
	ask(own, &sample);
	balancer = own->request.balancer;
	answer = answer_of(own, WEIR_AGENT_STEAL_REMOVED);
	steal.client_port++;
	// the request is not sent yet
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	assert_int_equal(own->ended, 0); // no callback is called
	send_answer(lab, &answer);
	UNTIL(lab, own->ended == 2);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NO_RESULT);
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_SENDER] == 1);
	assert_int_equal(own->requests, 1);
	// When the agent is added again, requests to the agent have another balancer ID, so the old
	// answer matches no request.
	configure_slow(lab, sample.backend);
	hear(lab);
	ask(own, &sample);
	assert_true(own->request.balancer != balancer);
	expect_refused(own, &answer, WEIR_AGENT_REFUSAL_BALANCER);
}

TEST(unsendable_request_ends_without_a_result) {
	static const struct weir_agent_keys none = {0};
	struct weir_agents_steal steal = sample;
	struct own *own = *state;
	struct lab *lab = &own->lab;

	hear(lab);
	steal.timeout_ms = WEIR_AGENT_STEAL_AHEAD_MS;
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	weir_agents_set_keys(lab->agents, &none); // before the request was sent
	UNTIL(lab, own->ended == 1);
	assert_int_equal(own->result, WEIR_AGENT_STEAL_NO_RESULT);
	assert_true(own->duration_ms < steal.timeout_ms);
	assert_int_equal(own->requests, 0);
}

TEST(no_callback_after_the_end) {
	struct own *own = *state;
	struct lab *lab = &own->lab;

	hear(lab);
	ask(own, &sample);
	assert_int_equal(
		weir_agents_request_steal(lab->agents, &(struct weir_agents_steal){.backend = 5,
							       .client_port = 1,
							       .vip_port = 1,
							       .client = sample.client,
							       .vip = sample.vip,
							       .timeout_ms = 1}),
		0); // the teardown frees both objects
}
