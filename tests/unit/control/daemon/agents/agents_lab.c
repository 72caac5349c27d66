// SPDX-License-Identifier: BSD-3-Clause
#include "agents_lab.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void send_bytes(struct lab *lab, const uint8_t *bytes, size_t n) {
	assert_int_equal(
		sendto(lab->fd, bytes, n, 0, (struct sockaddr *)&lab->from, sizeof(lab->from)), n);
}

void encode_answer(struct lab *lab, const struct weir_agent_key *key, uint8_t *bytes) {
	lab->answer.balancer = lab->probe.balancer;
	memcpy(lab->answer.challenge, lab->probe.challenge, sizeof(lab->answer.challenge));
	weir_agent_answer_encode(&lab->answer, key, bytes);
}

void answer_probe(struct lab *lab) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	encode_answer(lab, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(bytes));
}

static void take_probe(struct lab *lab, int at, const uint8_t *bytes, size_t count) {
	assert_int_equal(weir_agent_probe_decode(bytes, count, &lab->keys, &lab->probe),
		WEIR_AGENT_REFUSAL_NONE);
	assert_int_equal(weir_replay_take(&lab->replay, lab->probe.balancer, lab->probe.sequence,
				 uv_hrtime() / 1000000, 60000),
		WEIR_REPLAY_NEW);
	lab->probes++;
	lab->probes_at[at]++;
	for (uint8_t unasked = 0; lab->flaps && unasked < 2; unasked++) {
		lab->answer.serial++;
		lab->answer.word = lab->answer.serial % 2 == 0 ? WEIR_HEALTH_WORD_READY
							       : WEIR_HEALTH_WORD_LAME_DUCK;
		lab->answer.unasked = unasked;
		answer_probe(lab);
	}
	if (lab->answers) {
		answer_probe(lab);
	}
}

static void on_datagram(uv_poll_t *poll, int status, int events) {
	struct lab *lab = poll->data;
	const int at = (int)(poll - lab->polls);
	uint8_t bytes[512];
	socklen_t length = sizeof(lab->from);
	ssize_t n;

	(void)status;
	(void)events;
	lab->fd = lab->fds[at];
	n = recvfrom(lab->fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&lab->from,
		&length);
	if (n < 0) {
		return;
	}
	if (lab->on_order != NULL && weir_agent_message_kind(bytes, (size_t)n) == lab->order_kind) {
		lab->on_order(lab, bytes, (size_t)n);
	} else {
		take_probe(lab, at, bytes, (size_t)n);
	}
}

static void on_report(void *context, uint16_t backend, const struct weir_report *report) {
	struct lab *lab = context;

	lab->reports++;
	lab->reports_of_9 += backend == 9;
	lab->backend = backend;
	lab->report = *report;
}

static void on_tcp(void *context, uint16_t backend, const struct weir_agent_tcp *tcp) {
	struct lab *lab = context;

	lab->tcps++;
	lab->tcps_of_9 += backend == 9;
	lab->tcp = *tcp;
}

static void on_probed(void *context, uint16_t backend, enum weir_agents_outcome outcome,
	const char *detail, uint32_t duration_ms) {
	struct lab *lab = context;

	(void)backend;
	(void)duration_ms;
	assert_true(detail[0] != '\0');
	lab->answered += outcome == WEIR_AGENTS_ANSWERED;
	lab->silent += outcome == WEIR_AGENTS_SILENT;
	lab->unknown += outcome == WEIR_AGENTS_UNKNOWN;
}

static bool on_unanswered(void *context, uint16_t backend, uint64_t took_ms, uint32_t timeout_ms,
	char *why, size_t bytes) {
	struct lab *lab = context;

	assert_true(took_ms + 1 >= timeout_ms);
	if (lab->no_link) {
		assert_int_equal(backend, 5);
		assert_int_equal(timeout_ms, 30);
		snprintf(why, bytes, "no link");
	}
	return lab->no_link;
}

static void on_gone(void *context, uint16_t backend) {
	struct lab *lab = context;

	(void)backend;
	lab->gone++;
	lab->silent_when_gone = lab->silent;
}

struct weir_agents_target target_of(const struct lab *lab, uint16_t backend) {
	return (struct weir_agents_target){.backend = backend,
		.port = lab->port,
		.address = {.bytes = {127, 0, 0, 1}, .family = 4},
		.interval_ms = 40,
		.inactive_interval_ms = 400,
		.timeout_ms = 30,
		.settled = 4,
		.wants = WEIR_REPORT(ACTIVE)};
}

void configure(struct lab *lab, uint16_t backend) {
	struct weir_agents_target target = target_of(lab, backend);

	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
}

void configure_slow(struct lab *lab, uint16_t backend) {
	struct weir_agents_target target = target_of(lab, backend);

	target.interval_ms = target.inactive_interval_ms = target.timeout_ms = 500;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
}

// Open a socket of the agent. The socket at 127.0.0.1 is opened first and selects the port.
static void listen_at(struct lab *lab, int i) {
	struct sockaddr_in name = {.sin_family = AF_INET,
		.sin_port = htons(lab->port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK + (uint32_t)i)};
	socklen_t length = sizeof(name);

	lab->fds[i] = socket(AF_INET, SOCK_DGRAM, 0);
	assert_true(lab->fds[i] >= 0);
	assert_int_equal(bind(lab->fds[i], (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(lab->fds[i], (struct sockaddr *)&name, &length), 0);
	lab->port = ntohs(name.sin_port);
	assert_int_equal(uv_poll_init(&lab->loop, &lab->polls[i], lab->fds[i]), 0);
	lab->polls[i].data = lab;
	uv_poll_start(&lab->polls[i], UV_READABLE, on_datagram);
}

void lab_open(struct lab *lab) {
	struct weir_agents_events events = {.report = on_report,
		.tcp = on_tcp,
		.probed = on_probed,
		.excuse = on_unanswered,
		.lost = on_gone,
		.context = lab};

	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_agents_create(&lab->loop, &events, &lab->agents), 0);
	lab->keys = (struct weir_agent_keys){.count = 2, .key = {{.id = 7}, {.id = 9}}};
	memset(lab->keys.key[0].secret, 0x11, WEIR_AGENT_KEY_BYTES);
	memset(lab->keys.key[1].secret, 0x22, WEIR_AGENT_KEY_BYTES);
	weir_agents_set_keys(lab->agents, &lab->keys);
	listen_at(lab, 0);
	listen_at(lab, 1);
	uv_timer_init(&lab->loop, &lab->deadline);
	lab->answers = true;
	lab->answer = (struct weir_agent_answer){
		.agent = 0xa1, .serial = 1, .clock_ms = 1000, .word = WEIR_HEALTH_WORD_READY};
}

int lab_setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	lab_open(lab);
	*state = lab;
	return 0;
}

void lab_close(struct lab *lab) {
	weir_agents_free(lab->agents);
	for (int i = 0; i < 2; i++) {
		uv_close((uv_handle_t *)&lab->polls[i], NULL);
		close(lab->fds[i]);
	}
	uv_close((uv_handle_t *)&lab->deadline, NULL);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
}

int lab_teardown(void **state) {
	lab_close(*state);
	free(*state);
	return 0;
}

static void on_deadline(uv_timer_t *timer) {
	bool *over = timer->data;

	*over = true;
}

void run_ms(struct lab *lab, uint64_t ms) {
	bool over = false;

	lab->deadline.data = &over;
	uv_update_time(&lab->loop);
	uv_timer_start(&lab->deadline, on_deadline, ms, 0);
	while (!over) {
		uv_run(&lab->loop, UV_RUN_ONCE);
	}
}

uint64_t refused(const struct lab *lab, enum weir_agent_refusal refusal) {
	return weir_agents_counts(lab->agents).refused[refusal];
}
