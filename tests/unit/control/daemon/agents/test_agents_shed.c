// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of shed orders to an agent that the test simulates in the same process. An order is sent
// repeatedly until an answer reports that the agent has finished the order. Each order must end
// exactly once. If no such answer arrives, all connections of the order count as ended.
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
	int fd; // socket of the agent
	uint16_t port;
	uv_poll_t poll;
	uv_timer_t pause;
	struct sockaddr_in from;
	uint32_t probed; // number of probes that weir_agents reported as answered
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

static void send_bytes(struct lab *lab, const uint8_t *bytes) {
	assert_int_equal(sendto(lab->fd, bytes, WEIR_AGENT_MESSAGE_BYTES, 0,
				 (struct sockaddr *)&lab->from, sizeof(lab->from)),
		WEIR_AGENT_MESSAGE_BYTES);
}

static void send_answer(struct lab *lab, const struct weir_agent_shed_answer *answer) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	weir_agent_shed_answer_encode(answer, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes);
}

static void take_order(struct lab *lab, const uint8_t *bytes, size_t count) {
	assert_int_equal(weir_agent_shed_decode(bytes, count, &lab->keys, &lab->order),
		WEIR_AGENT_REFUSAL_NONE);
	lab->ordered++;
	lab->ids |= UINT64_C(1) << lab->order.id % 64;
	if (lab->lost > 0) {
		lab->lost--;
	} else if (lab->answer.result != WEIR_AGENT_SHED_NO_RESULT) {
		lab->answer.agent = lab->order.agent;
		lab->answer.balancer = lab->order.balancer;
		lab->answer.id = lab->order.id;
		send_answer(lab, &lab->answer);
	}
}

static void take_probe(struct lab *lab, const uint8_t *bytes, size_t count) {
	struct weir_agent_answer answer = {
		.agent = AGENT, .clock_ms = CLOCK_MS, .serial = 1, .word = WEIR_HEALTH_WORD_READY};
	struct weir_agent_probe probe;
	uint8_t datagram[WEIR_AGENT_MESSAGE_BYTES];

	assert_int_equal(
		weir_agent_probe_decode(bytes, count, &lab->keys, &probe), WEIR_AGENT_REFUSAL_NONE);
	answer.balancer = probe.balancer;
	memcpy(answer.challenge, probe.challenge, sizeof(answer.challenge));
	weir_agent_answer_encode(&answer, &lab->keys.key[0], datagram);
	send_bytes(lab, datagram);
}

static void on_datagram(uv_poll_t *poll, int status, int events) {
	struct lab *lab = poll->data;
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES + 1];
	socklen_t length = sizeof(lab->from);
	ssize_t n = recvfrom(lab->fd, bytes, sizeof(bytes), MSG_DONTWAIT,
		(struct sockaddr *)&lab->from, &length);

	(void)status;
	(void)events;
	if (n >= 0 && weir_agent_message_kind(bytes, (size_t)n) == WEIR_AGENT_SHED) {
		take_order(lab, bytes, (size_t)n);
	} else if (n >= 0) {
		take_probe(lab, bytes, (size_t)n);
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
	(void)detail;
	(void)duration_ms;
	lab->probed += outcome == WEIR_AGENTS_ANSWERED;
}

static void on_gone(void *context, uint16_t backend) {
	(void)context;
	(void)backend;
}

static void on_ended(void *context, const struct weir_agents_shed *order,
	const struct weir_agents_shed_result *result) {
	struct lab *lab = context;

	assert_int_equal(order->backend, sample.backend);
	lab->ended++;
	lab->result = *result;
	if (lab->order_again) {
		lab->order_again = false;
		assert_int_equal(weir_agents_order_shed(lab->agents, order), 0);
	}
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
	const struct weir_agents_target target = {.backend = sample.backend,
		.port = lab->port,
		.address = {.bytes = {127, 0, 0, 1}, .family = 4},
		.interval_ms = 500,
		.inactive_interval_ms = 500,
		.timeout_ms = 500,
		.settled = 4};

	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
}

static void open_socket(struct lab *lab) {
	struct sockaddr_in name = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(name);

	lab->fd = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(lab->fd >= 0);
	assert_int_equal(bind(lab->fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(lab->fd, (struct sockaddr *)&name, &length), 0);
	lab->port = ntohs(name.sin_port);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	const struct weir_agents_events events = {
		.report = on_report, .probed = on_probed, .lost = on_gone, .context = lab};

	assert_non_null(lab);
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_agents_create(&lab->loop, &events, &lab->agents), 0);
	weir_agents_on_shed_ended(lab->agents, on_ended, lab);
	lab->keys = (struct weir_agent_keys){.count = 1, .key = {{.id = 1, .secret = {1, 2}}}};
	open_socket(lab);
	uv_poll_init(&lab->loop, &lab->poll, lab->fd);
	lab->poll.data = lab;
	uv_poll_start(&lab->poll, UV_READABLE, on_datagram);
	uv_timer_init(&lab->loop, &lab->pause);
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
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

static void start(struct lab *lab) {
	weir_agents_set_keys(lab->agents, &lab->keys);
	configure(lab);
	UNTIL(lab, lab->probed > 0);
}

static uint64_t refused(const struct lab *lab, enum weir_agent_refusal refusal) {
	return weir_agents_counts(lab->agents).refused[refusal];
}

TEST(order_has_the_agents_process_and_deadline) {
	struct lab *lab = *state;

	lab->answer.result = WEIR_AGENT_SHED_DONE;
	lab->answer.ended = 7;
	lab->answer.connections = 43;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	// the callback is never called within weir_agents_order_shed()
	assert_int_equal(lab->ended, 0);
	UNTIL(lab, lab->ended == 1);
	assert_true(lab->order.agent == AGENT);
	assert_true(lab->order.deadline_ms >= CLOCK_MS + sample.duration_ms);
	assert_string_equal(lab->order.service, "a-service-with-a-name-of-more-t");
	assert_int_equal(lab->order.count, 10);
	assert_int_equal(lab->order.keep, 40);
	assert_memory_equal(lab->order.binds, sample.binds, sizeof(sample.binds));
	assert_true(lab->result.over && lab->result.answered);
	assert_int_equal(lab->result.ended, 7);
	assert_int_equal(lab->result.connections, 43);
}

TEST(lost_order_is_sent_again_with_its_id) {
	struct lab *lab = *state;

	lab->answer.result = WEIR_AGENT_SHED_DONE;
	lab->answer.ended = 10;
	lab->lost = 2;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->ordered, 3);
	assert_int_equal(__builtin_popcountll(lab->ids), 1);
	assert_int_equal(lab->result.ended, 10);
}

TEST(without_a_final_answer_all_connections_count) {
	struct lab *lab = *state;

	lab->answer.result = WEIR_AGENT_SHED_ACTIVE;
	lab->answer.ended = 3;
	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ended == 1);
	assert_true(lab->ordered >= 4);
	assert_true(lab->result.answered && !lab->result.over);
	assert_int_equal(lab->result.ended, 10);
	// The agent does not answer at all.
	lab->lost = UINT32_MAX;
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ended == 2);
	assert_false(lab->result.answered);
	assert_int_equal(lab->result.ended, 10);
	// An agent that answers "late" may have carried out the order and discarded its result.
	lab->lost = 0;
	lab->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_LATE};
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ended == 3);
	assert_int_equal(lab->result.ended, 10);
	lab->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_OFF};
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ended == 4);
	assert_int_equal(lab->result.ended, 0);
	assert_int_equal(lab->result.result, WEIR_AGENT_SHED_OFF);
}

// A hook that hangs is killed at the deadline. The agent sends the final answer after the deadline.
TEST(final_answer_after_the_deadline_is_accepted) {
	struct lab *lab = *state;
	struct weir_agents_shed order = sample;
	uint64_t begun_ms;

	order.duration_ms = 300;
	lab->answer = (struct weir_agent_shed_answer){.result = WEIR_AGENT_SHED_ACTIVE, .ended = 7};
	start(lab);
	begun_ms = uv_hrtime() / 1000000;
	assert_int_equal(weir_agents_order_shed(lab->agents, &order), 0);
	UNTIL(lab, lab->ordered > 0 && uv_hrtime() / 1000000 > begun_ms + order.duration_ms);
	lab->answer.result = WEIR_AGENT_SHED_HOOK_FAILED;
	send_answer(lab, &lab->answer);
	UNTIL(lab, lab->ended == 1);
	if (!lab->result.over) { // the machine was so slow that the order was given up meanwhile
		assert_true(uv_hrtime() / 1000000 >=
			    begun_ms + order.duration_ms + WEIR_AGENTS_SHED_LATE_MS);
		skip();
	}
	assert_int_equal(lab->result.result, WEIR_AGENT_SHED_HOOK_FAILED);
	assert_int_equal(lab->result.ended, 7);
}

TEST(answers_to_other_orders_are_refused) {
	struct lab *lab = *state;
	struct weir_agent_shed_answer other;

	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	UNTIL(lab, lab->ordered > 0);
	other = (struct weir_agent_shed_answer){.agent = AGENT,
		.balancer = lab->order.balancer,
		.id = lab->order.id + 1,
		.ended = 1,
		.result = WEIR_AGENT_SHED_DONE};
	send_answer(lab, &other);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 1);
	other.id = lab->order.id;
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
	assert_int_equal(lab->ended, 0);
	other.ended = 6;
	other.result = WEIR_AGENT_SHED_DONE;
	send_answer(lab, &other);
	UNTIL(lab, lab->ended == 1);
	assert_int_equal(lab->result.ended, 6);
	send_answer(lab, &other); // a duplicate
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SHED) == 4);
	assert_int_equal(lab->ended, 1);
}

TEST(one_order_for_each_backend_at_a_time) {
	struct lab *lab = *state;
	struct weir_agents_shed wrong = sample;

	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -ENOENT);
	configure(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -ENOKEY);
	start(lab);
	wrong.idle_ms = 999;
	assert_int_equal(weir_agents_order_shed(lab->agents, &wrong), -EINVAL);
	wrong = sample;
	wrong.duration_ms = WEIR_AGENT_STEAL_AHEAD_MS + 1;
	assert_int_equal(weir_agents_order_shed(lab->agents, &wrong), -EINVAL);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), -EALREADY);
	lab->answer.result = WEIR_AGENT_SHED_DONE;
	lab->order_again = true;
	UNTIL(lab, lab->ended == 2);
	assert_int_equal(__builtin_popcountll(lab->ids), 2);
}

TEST(order_ends_with_its_agent) {
	struct lab *lab = *state;

	start(lab);
	assert_int_equal(weir_agents_order_shed(lab->agents, &sample), 0);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	UNTIL(lab, lab->ended == 1);
	assert_false(lab->result.answered);
	assert_int_equal(lab->result.ended, 10);
}
