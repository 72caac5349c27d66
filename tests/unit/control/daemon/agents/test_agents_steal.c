// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of steal requests to an agent that the test simulates in the same process. Each request
// must end exactly once, either with the answer that matches it, or without an answer.
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents.h"
#include "health_state.h"
#include "test.h"

#define AGENT UINT64_C(0xa1)
#define CLOCK_MS 1000000 // clock of the agent in its answers to probes

struct lab {
	uv_loop_t loop;
	struct weir_agents *agents;
	struct weir_agent_keys keys;
	int fd, elsewhere; // socket of the agent, and of another process on the agent's host
	uint16_t port;
	uv_poll_t poll;
	uv_timer_t pause;
	struct sockaddr_in from;
	uint32_t answered; // answered probes
	bool silent; // the agent does not answer probes
	uint32_t requests; // received steal requests
	uint32_t probed; // number of probes that weir_agents reported as ended
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

static void send_from(struct lab *lab, int fd, const uint8_t *bytes) {
	assert_int_equal(sendto(fd, bytes, WEIR_AGENT_MESSAGE_BYTES, 0,
				 (struct sockaddr *)&lab->from, sizeof(lab->from)),
		WEIR_AGENT_MESSAGE_BYTES);
}

static void take_probe(struct lab *lab, const struct weir_agent_probe *probe) {
	struct weir_agent_answer answer = {.agent = AGENT,
		.balancer = probe->balancer,
		.clock_ms = CLOCK_MS,
		.serial = 1,
		.word = WEIR_HEALTH_WORD_READY};
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	if (!lab->silent) {
		memcpy(answer.challenge, probe->challenge, sizeof(answer.challenge));
		weir_agent_answer_encode(&answer, &lab->keys.key[0], bytes);
		send_from(lab, lab->fd, bytes);
		lab->answered++;
	}
}

static void on_datagram(uv_poll_t *poll, int status, int events) {
	struct lab *lab = poll->data;
	struct weir_agent_probe probe;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES + 1];
	socklen_t length = sizeof(lab->from);
	ssize_t n = recvfrom(lab->fd, bytes, sizeof(bytes), MSG_DONTWAIT,
		(struct sockaddr *)&lab->from, &length);

	(void)status;
	(void)events;
	if (n < 0) {
		return;
	}
	if (weir_agent_message_kind(bytes, (size_t)n) == WEIR_AGENT_STEAL) {
		assert_int_equal(
			weir_agent_steal_decode(bytes, (size_t)n, &lab->keys, &lab->request),
			WEIR_AGENT_REFUSAL_NONE);
		lab->requests++;
	} else {
		assert_int_equal(weir_agent_probe_decode(bytes, (size_t)n, &lab->keys, &probe),
			WEIR_AGENT_REFUSAL_NONE);
		take_probe(lab, &probe);
	}
}

static void on_report(void *context, uint16_t backend, const struct weir_report *report) {
	(void)context;
	(void)backend;
	(void)report;
}

static void on_probed(void *context, uint16_t backend, enum weir_agents_outcome outcome,
	const char *detail, uint32_t duration_ms) {
	struct lab *lab = context;

	(void)backend;
	(void)outcome;
	(void)detail;
	(void)duration_ms;
	lab->probed++;
}

static void on_gone(void *context, uint16_t backend) {
	(void)context;
	(void)backend;
}

static void on_steal_ended(void *context, const struct weir_agents_steal *steal,
	enum weir_agent_steal_result result, uint32_t duration_ms) {
	struct lab *lab = context;

	lab->ended++;
	lab->steal = *steal;
	lab->result = result;
	lab->duration_ms = duration_ms;
	if (lab->ask_again) {
		lab->ask_again = false;
		assert_int_equal(weir_agents_request_steal(lab->agents, steal), 0);
	}
}

static int open_socket(uint16_t *port) {
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(name);
	int fd = socket(AF_INET, SOCK_DGRAM, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
	*port = ntohs(name.sin_port);
	return fd;
}

static void on_pause(uv_timer_t *timer) {
	(void)timer;
}

// One iteration of the loop, at most 2 ms.
static void turn(struct lab *lab) {
	uv_update_time(&lab->loop);
	uv_timer_start(&lab->pause, on_pause, 2, 0);
	uv_run(&lab->loop, UV_RUN_ONCE);
	uv_timer_stop(&lab->pause);
}

// Wait up to ten seconds, so that the test does not fail on a busy machine.
#define UNTIL(lab, condition) \
	do { \
		uint64_t begin_ns = uv_hrtime(); \
		while (!(condition)) { \
			assert_true(uv_hrtime() - begin_ns < UINT64_C(10000000000)); \
			turn(lab); \
		} \
	} while (0)

static void configure(struct lab *lab) {
	const struct weir_agents_target target = {.backend = 5,
		.port = lab->port,
		.address = {.bytes = {127, 0, 0, 1}, .family = 4},
		.interval_ms = 500,
		.inactive_interval_ms = 500,
		.timeout_ms = 500,
		.settled = 4};

	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
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
	struct lab *lab = calloc(1, sizeof(*lab));
	const struct weir_agents_events events = {
		.report = on_report, .probed = on_probed, .lost = on_gone, .context = lab};
	uint16_t port;

	assert_non_null(lab);
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_agents_create(&lab->loop, &events, &lab->agents), 0);
	weir_agents_on_steal_ended(lab->agents, on_steal_ended, lab);
	lab->keys = (struct weir_agent_keys){.count = 2, .key = {{.id = 7}, {.id = 9}}};
	memset(lab->keys.key[0].secret, 0x11, WEIR_AGENT_KEY_BYTES);
	weir_agents_set_keys(lab->agents, &lab->keys);
	lab->fd = open_socket(&lab->port);
	lab->elsewhere = open_socket(&port);
	assert_int_equal(uv_poll_init(&lab->loop, &lab->poll, lab->fd), 0);
	lab->poll.data = lab;
	uv_poll_start(&lab->poll, UV_READABLE, on_datagram);
	uv_timer_init(&lab->loop, &lab->pause);
	configure(lab);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_agents_free(lab->agents);
	uv_close((uv_handle_t *)&lab->poll, NULL);
	uv_close((uv_handle_t *)&lab->pause, NULL);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	close(lab->fd);
	close(lab->elsewhere);
	free(lab);
	return 0;
}

// Run until the agent has answered and no probe is in flight.
static void hear(struct lab *lab) {
	struct weir_agents_status status;

	UNTIL(lab, weir_agents_status(lab->agents, 5, &status) == 0 && status.answers);
}

// Send a request, and wait until it has reached the agent.
static void ask(struct lab *lab, const struct weir_agents_steal *steal) {
	uint32_t requests = lab->requests;

	assert_int_equal(weir_agents_request_steal(lab->agents, steal), 0);
	UNTIL(lab, lab->requests > requests);
}

// Returns an answer to the last request.
static struct weir_agent_steal_answer answer_of(
	const struct lab *lab, enum weir_agent_steal_result result) {
	struct weir_agent_steal_answer answer;

	weir_agent_steal_answer_begin(&lab->request, &answer);
	answer.result = (uint8_t)result;
	return answer;
}

static void send_answer(struct lab *lab, const struct weir_agent_steal_answer *answer) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	weir_agent_steal_answer_encode(answer, &lab->keys.key[0], bytes);
	send_from(lab, lab->fd, bytes);
}

static struct weir_agents_counts counts(const struct lab *lab) {
	return weir_agents_counts(lab->agents);
}

// Send an answer. Check that it is refused for this reason, and that the request is still pending.
static void expect_refused(struct lab *lab, const struct weir_agent_steal_answer *answer,
	enum weir_agent_refusal refusal) {
	uint64_t before = counts(lab).refused[refusal];
	uint32_t ended = lab->ended;

	send_answer(lab, answer);
	UNTIL(lab, counts(lab).refused[refusal] == before + 1);
	assert_int_equal(lab->ended, ended);
}

// --- requests -----------------------------------------------------------------------------

TEST_EACH(setup, teardown);

TEST(request_contains_the_given_fields) {
	struct lab *lab = *state;
	struct weir_agents_steal other = sample;
	const uint8_t *bytes;
	uint64_t first;

	hear(lab);
	ask(lab, &sample);
	assert_true(lab->request.agent == AGENT && lab->request.balancer != 0);
	assert_int_equal(lab->request.protocol, 6);
	assert_int_equal(lab->request.client_port, 50000);
	assert_int_equal(lab->request.vip_port, 80);
	assert_int_equal(lab->request.recipient_port, lab->port);
	assert_int_equal(weir_agent_address_family(lab->request.client, &bytes), 4);
	assert_memory_equal(bytes, "\xcb\x00\x71\x07", 4);
	assert_int_equal(weir_agent_address_family(lab->request.vip, &bytes), 4);
	assert_memory_equal(bytes, "\xc6\x33\x64\x0a", 4);
	assert_int_equal(weir_agent_address_family(lab->request.recipient, &bytes), 4);
	assert_memory_equal(bytes, "\x7f\x00\x00\x01", 4);
	// The deadline is a time of the agent's clock, which has advanced since the agent's last
	// answer.
	assert_true(lab->request.deadline_ms >= CLOCK_MS + sample.timeout_ms);
	assert_true(lab->request.deadline_ms < CLOCK_MS + sample.timeout_ms + 60000);
	first = lab->request.id;
	assert_true(first != 0);
	other.client_port++;
	ask(lab, &other);
	assert_true(lab->request.id == first + 1);
	assert_int_equal(in_flight(lab), 2);
	assert_int_equal(counts(lab).steals, 2);
}

TEST(flows_of_ipv6_can_be_requested) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;
	const uint8_t *bytes;

	hear(lab);
	steal.client = (struct weir_address){.family = 6, .bytes = {0x20, 1, [15] = 1}};
	steal.vip = (struct weir_address){.family = 6, .bytes = {0x20, 1, [15] = 2}};
	ask(lab, &steal);
	assert_int_equal(weir_agent_address_family(lab->request.client, &bytes), 6);
	assert_memory_equal(bytes, steal.client.bytes, 16);
	assert_memory_equal(lab->request.vip, steal.vip.bytes, 16);
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
	lab->silent = true;
	UNTIL(lab, weir_agents_status(lab->agents, 5, &status) == 0 && !status.answers);
	assert_int_equal(weir_agents_request_steal(lab->agents, &sample), -EAGAIN);
}

TEST(table_of_requests_is_bounded) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;

	hear(lab);
	steal.timeout_ms = 50;
	for (uint32_t i = 0; i < WEIR_AGENTS_STEALS_MAX; i++) {
		steal.client_port = (uint16_t)(1000 + i);
		assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	}
	steal.client_port = 999;
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), -EBUSY);
	UNTIL(lab, lab->ended == WEIR_AGENTS_STEALS_MAX);
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	assert_int_equal(
		counts(lab).steal_results[WEIR_AGENT_STEAL_NO_RESULT], WEIR_AGENTS_STEALS_MAX);
}

// --- answers ------------------------------------------------------------------------------

TEST(every_result_is_reported_once) {
	struct lab *lab = *state;

	hear(lab);
	for (uint32_t result = 1; result < WEIR_AGENT_STEAL_RESULT_COUNT; result++) {
		struct weir_agent_steal_answer answer;

		ask(lab, &sample);
		answer = answer_of(lab, (enum weir_agent_steal_result)result);
		send_answer(lab, &answer);
		UNTIL(lab, lab->ended == result);
		assert_int_equal(lab->result, result);
		assert_true(lab->steal.token == sample.token);
		assert_int_equal(lab->steal.client_port, sample.client_port);
		assert_int_equal(counts(lab).steal_results[result], 1);
	}
	assert_int_equal(in_flight(lab), 0);
}

TEST(silent_agent_ends_at_the_timeout) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;

	hear(lab);
	steal.timeout_ms = 60;
	ask(lab, &steal);
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NO_RESULT);
	assert_true(lab->duration_ms >= 60);
	assert_true(lab->steal.token == sample.token);
	assert_int_equal(counts(lab).steal_results[WEIR_AGENT_STEAL_NO_RESULT], 1);
}

TEST(late_answer_is_counted_and_ignored) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;

	hear(lab);
	steal.timeout_ms = 40;
	ask(lab, &steal);
	answer = answer_of(lab, WEIR_AGENT_STEAL_REMOVED);
	UNTIL(lab, lab->ended == 1);
	expect_refused(lab, &answer, WEIR_AGENT_REFUSAL_STEAL);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NO_RESULT);
	// The late answer does not match the next request for the flow either.
	ask(lab, &sample);
	expect_refused(lab, &answer, WEIR_AGENT_REFUSAL_STEAL);
}

// The loop is busy until after the timeout, so the answer is late. It must be refused, because the
// caller may already have acted on the timeout.
TEST(answer_that_waited_for_the_loop_is_late) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;

	hear(lab);
	steal.timeout_ms = 60;
	ask(lab, &steal);
	answer = answer_of(lab, WEIR_AGENT_STEAL_REMOVED);
	send_answer(lab, &answer);
	usleep(80000);
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NO_RESULT);
}

TEST(second_answer_is_counted_and_ignored) {
	struct lab *lab = *state;
	struct weir_agent_steal_answer answer;

	hear(lab);
	ask(lab, &sample);
	answer = answer_of(lab, WEIR_AGENT_STEAL_RUNNING);
	send_answer(lab, &answer);
	UNTIL(lab, lab->ended == 1);
	answer.result = WEIR_AGENT_STEAL_REMOVED;
	expect_refused(lab, &answer, WEIR_AGENT_REFUSAL_STEAL);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_RUNNING);
}

TEST(unrelated_answers_are_ignored) {
	struct lab *lab = *state;
	struct weir_agent_steal_answer right, wrong;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	hear(lab);
	ask(lab, &sample);
	right = answer_of(lab, WEIR_AGENT_STEAL_REMOVED);
	wrong = right;
	wrong.id++;
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_STEAL);
	wrong = right;
	wrong.agent++; // an answer from another agent process
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_STEAL);
	wrong = right;
	wrong.balancer++;
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_BALANCER);
	wrong = right;
	wrong.client_port++;
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_FLOW);
	wrong = right;
	wrong.vip[15]++;
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_FLOW);
	wrong = right;
	wrong.result = 0;
	expect_refused(lab, &wrong, WEIR_AGENT_REFUSAL_VALUE);
	// The answer comes from a port other than the agent's port.
	weir_agent_steal_answer_encode(&right, &lab->keys.key[0], bytes);
	send_from(lab, lab->elsewhere, bytes);
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_SENDER] == 1);
	bytes[100] ^= 1;
	send_from(lab, lab->fd, bytes);
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_MAC] == 1);
	assert_int_equal(lab->ended, 0);
	send_answer(lab, &right);
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_REMOVED);
}

// --- lifetime -----------------------------------------------------------------------------

TEST(callback_may_make_another_request) {
	struct lab *lab = *state;
	struct weir_agent_steal_answer answer;
	uint64_t first;

	hear(lab);
	lab->ask_again = true;
	ask(lab, &sample);
	first = lab->request.id;
	answer = answer_of(lab, WEIR_AGENT_STEAL_UNSETTLED);
	send_answer(lab, &answer);
	UNTIL(lab, lab->requests == 2);
	assert_true(lab->request.id == first + 1);
	answer = answer_of(lab, WEIR_AGENT_STEAL_NOTHING);
	send_answer(lab, &answer);
	UNTIL(lab, lab->ended == 2);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NOTHING);
}

TEST(request_to_a_removed_agent_ends) {
	struct lab *lab = *state;
	struct weir_agents_steal steal = sample;
	struct weir_agent_steal_answer answer;
	uint64_t balancer;

	hear(lab);
	ask(lab, &sample);
	balancer = lab->request.balancer;
	answer = answer_of(lab, WEIR_AGENT_STEAL_REMOVED);
	steal.client_port++;
	// the request is not sent yet
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	assert_int_equal(lab->ended, 0); // no callback is called
	send_answer(lab, &answer);
	UNTIL(lab, lab->ended == 2);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NO_RESULT);
	UNTIL(lab, counts(lab).refused[WEIR_AGENT_REFUSAL_SENDER] == 1);
	assert_int_equal(lab->requests, 1);
	// When the agent is added again, requests to the agent have another balancer ID, so the old
	// answer matches no request.
	configure(lab);
	hear(lab);
	ask(lab, &sample);
	assert_true(lab->request.balancer != balancer);
	expect_refused(lab, &answer, WEIR_AGENT_REFUSAL_BALANCER);
}

TEST(unsendable_request_ends_without_a_result) {
	static const struct weir_agent_keys none = {0};
	struct weir_agents_steal steal = sample;
	struct lab *lab = *state;

	hear(lab);
	steal.timeout_ms = WEIR_AGENT_STEAL_AHEAD_MS;
	assert_int_equal(weir_agents_request_steal(lab->agents, &steal), 0);
	weir_agents_set_keys(lab->agents, &none); // before the request was sent
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->result, WEIR_AGENT_STEAL_NO_RESULT);
	assert_true(lab->duration_ms < steal.timeout_ms);
	assert_int_equal(lab->requests, 0);
}

TEST(no_callback_after_the_end) {
	struct lab *lab = *state;

	hear(lab);
	ask(lab, &sample);
	assert_int_equal(
		weir_agents_request_steal(lab->agents, &(struct weir_agents_steal){.backend = 5,
							       .client_port = 1,
							       .vip_port = 1,
							       .client = sample.client,
							       .vip = sample.vip,
							       .timeout_ms = 1}),
		0); // the teardown frees both objects
}
