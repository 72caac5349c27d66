// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of weir_agents with an agent that the test simulates in the same process. The agent has two
// addresses, and refuses replayed probes, as weir-agent does.
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents.h"
#include "health_state.h"
#include "replay.h"
#include "test.h"

struct lab {
	uv_loop_t loop;
	struct weir_agents *agents;
	struct weir_agent_keys keys;
	int fd; // socket of the agent that got the last probe
	int fds[2]; // at 127.0.0.1 and 127.0.0.2
	uint16_t port;
	struct sockaddr_in from; // sender of the last probe
	struct weir_agent_probe probe; // the last probe
	unsigned int probes, probes_at[2];
	struct weir_replay replay;
	bool answers; // the simulated agent answers each probe automatically
	bool flaps; // each answer has a new state, and is followed by an unsolicited answer
	struct weir_agent_answer answer; // the agent's answer, without balancer and challenge
	uv_poll_t polls[2];
	uv_timer_t deadline;
	// Counts of callbacks.
	unsigned int reports, reports_of_9, answered, silent, unknown, gone;
	uint16_t backend;
	struct weir_report report;
	unsigned int tcps, tcps_of_9; // number of reports of TCP statistics
	struct weir_agent_tcp tcp;
	unsigned int silent_when_gone; // value of `silent` when an agent was last reported as lost
	uint64_t shortest_ms; // shortest wait for an answer that did not arrive
	bool no_link; // the link to the agent is down
};

static void send_bytes(struct lab *lab, const uint8_t *bytes, size_t n) {
	assert_int_equal(
		sendto(lab->fd, bytes, n, 0, (struct sockaddr *)&lab->from, sizeof(lab->from)), n);
}

// Encodes the answer to the last probe, signed with a key.
static void encode(struct lab *lab, const struct weir_agent_key *key, uint8_t *bytes) {
	lab->answer.balancer = lab->probe.balancer;
	memcpy(lab->answer.challenge, lab->probe.challenge, sizeof(lab->answer.challenge));
	weir_agent_answer_encode(&lab->answer, key, bytes);
}

static void answer(struct lab *lab) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	encode(lab, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(bytes));
}

static void on_probe(uv_poll_t *poll, int status, int events) {
	struct lab *lab = poll->data;
	uint8_t bytes[512];
	socklen_t length = sizeof(lab->from);
	ssize_t n;

	(void)status;
	(void)events;
	lab->fd = lab->fds[poll - lab->polls];
	n = recvfrom(lab->fd, bytes, sizeof(bytes), MSG_DONTWAIT, (struct sockaddr *)&lab->from,
		&length);
	if (n < 0) {
		return;
	}
	assert_int_equal(weir_agent_probe_decode(bytes, (size_t)n, &lab->keys, &lab->probe),
		WEIR_AGENT_REFUSAL_NONE);
	assert_int_equal(weir_replay_take(&lab->replay, lab->probe.balancer, lab->probe.sequence,
				 uv_hrtime() / 1000000, 60000),
		WEIR_REPLAY_NEW);
	lab->probes++;
	lab->probes_at[poll - lab->polls]++;
	for (uint8_t unasked = 0; lab->flaps && unasked < 2; unasked++) {
		lab->answer.serial++;
		lab->answer.word = lab->answer.serial % 2 == 0 ? WEIR_HEALTH_WORD_READY
							       : WEIR_HEALTH_WORD_LAME_DUCK;
		lab->answer.unasked = unasked;
		answer(lab);
	}
	if (lab->answers) {
		answer(lab);
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

	lab->shortest_ms = took_ms < lab->shortest_ms ? took_ms : lab->shortest_ms;
	if (lab->no_link) {
		assert_int_equal(backend, 5);
		assert_true(timeout_ms == 30 && took_ms + 1 >= timeout_ms);
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

static struct weir_agents_target target_of(const struct lab *lab, uint16_t backend) {
	return (struct weir_agents_target){.backend = backend,
		.port = lab->port,
		.address = {.bytes = {127, 0, 0, 1}, .family = 4},
		.interval_ms = 40,
		.inactive_interval_ms = 400,
		.timeout_ms = 30,
		.settled = 4,
		.wants = WEIR_REPORT(ACTIVE)};
}

static void configure(struct lab *lab, uint16_t backend) {
	struct weir_agents_target target = target_of(lab, backend);

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
	uv_poll_start(&lab->polls[i], UV_READABLE, on_probe);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_agents_events events = {.report = on_report,
		.tcp = on_tcp,
		.probed = on_probed,
		.excuse = on_unanswered,
		.lost = on_gone,
		.context = lab};

	assert_non_null(lab);
	assert_int_equal(uv_loop_init(&lab->loop), 0);
	assert_int_equal(weir_agents_create(&lab->loop, &events, &lab->agents), 0);
	lab->keys = (struct weir_agent_keys){.count = 2, .key = {{.id = 7}, {.id = 9}}};
	memset(lab->keys.key[0].secret, 0x11, WEIR_AGENT_KEY_BYTES);
	memset(lab->keys.key[1].secret, 0x22, WEIR_AGENT_KEY_BYTES);
	weir_agents_set_keys(lab->agents, &lab->keys);
	listen_at(lab, 0);
	listen_at(lab, 1);
	uv_timer_init(&lab->loop, &lab->deadline);
	lab->shortest_ms = UINT64_MAX;
	lab->answers = true;
	lab->answer = (struct weir_agent_answer){
		.agent = 0xa1, .serial = 1, .clock_ms = 1000, .word = WEIR_HEALTH_WORD_READY};
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_agents_free(lab->agents);
	for (int i = 0; i < 2; i++) {
		uv_close((uv_handle_t *)&lab->polls[i], NULL);
		close(lab->fds[i]);
	}
	uv_close((uv_handle_t *)&lab->deadline, NULL);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	free(lab);
	return 0;
}

static void on_deadline(uv_timer_t *timer) {
	bool *over = timer->data;

	*over = true;
}

static void run_ms(struct lab *lab, uint64_t ms) {
	bool over = false;

	lab->deadline.data = &over;
	uv_update_time(&lab->loop);
	uv_timer_start(&lab->deadline, on_deadline, ms, 0);
	while (!over) {
		uv_run(&lab->loop, UV_RUN_ONCE);
	}
}

#define UNTIL(lab, condition) \
	do { \
		for (unsigned int turns = 0; !(condition); turns++) { \
			assert_in_range(turns, 0, 2000); \
			run_ms(lab, 2); \
		} \
	} while (0)

static uint64_t refused(const struct lab *lab, enum weir_agent_refusal refusal) {
	return weir_agents_counts(lab->agents).refused[refusal];
}

TEST_EACH(setup, teardown);

TEST(agent_is_probed_and_its_answer_is_accepted) {
	struct lab *lab = *state;
	struct weir_agents_status status;

	lab->answer.given = WEIR_REPORT(ACTIVE);
	lab->answer.active = 17;
	configure(lab, 5);
	UNTIL(lab, lab->answered == 3);
	assert_int_equal(lab->backend, 5);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	assert_int_equal(lab->report.given, WEIR_REPORT(ACTIVE));
	assert_true(lab->report.active_requests == 17);
	assert_int_equal(lab->probe.wants, WEIR_REPORT(ACTIVE));
	assert_int_equal(lab->probe.acknowledged, 1);
	assert_int_equal(lab->probe.agent, 0xa1);
	assert_int_equal(weir_agents_status(lab->agents, 5, &status), 0);
	assert_true(status.answers && status.has_answer);
	assert_int_equal(status.agent, 0xa1);
	assert_int_equal(weir_agents_status(lab->agents, 4, &status), -ENOENT);
}

// After its start, weir-control has no report from the agent. It therefore sends the first probe at
// once, not after an interval.
TEST(first_probe_is_sent_at_once) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);

	target.interval_ms = 10000;
	target.inactive_interval_ms = 60000;
	lab->answer.given = WEIR_REPORT(MAX_ACTIVE);
	lab->answer.max_active_flows = 400;
	target.wants = WEIR_REPORT(MAX_ACTIVE);
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	run_ms(lab, 100);
	assert_true(lab->reports > 0);
	assert_true(lab->report.max_active_flows == 400);
}

// weir-control immediately confirms a new state with an additional probe. The next regular probe
// would be sent after a minute.
TEST(new_word_is_accepted_and_confirmed_at_once) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	unsigned int probes;

	target.interval_ms = target.timeout_ms = 200;
	target.inactive_interval_ms = 60000;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 5);
	run_ms(lab, 60); // probes are less frequent from now on
	probes = lab->probes;
	lab->answers = false;
	lab->answer.word = WEIR_HEALTH_WORD_LAME_DUCK;
	lab->answer.serial = 2;
	lab->answer.unasked = 1;
	answer(lab);
	run_ms(lab, 20);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(lab->probes, probes + 1);
	assert_int_equal(lab->probe.acknowledged, 2);
	// The agent repeats its state, as if it had not received the confirmation.
	answer(lab);
	run_ms(lab, 20);
	assert_int_equal(refused(lab, WEIR_AGENT_REFUSAL_SERIAL), 1);
	assert_int_equal(lab->probes, probes + 1);
	UNTIL(lab, lab->probes > probes + 1 || lab->silent > 0);
	run_ms(lab, 50);
	answer(lab);
	UNTIL(lab, lab->probes > probes + 1);
}

// weir-control requests additional fields within an interval, and sends another probe after the
// agent has had time to measure. Then probes become less frequent again.
TEST(agent_gets_additional_fields_soon) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	struct weir_agents_status status;
	unsigned int probes;

	target.inactive_interval_ms = 60000;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 5);
	run_ms(lab, 60); // probes are less frequent from now on
	probes = lab->probes;
	run_ms(lab, 150);
	assert_int_equal(lab->probes, probes);
	weir_agents_set_wants(lab->agents, 5, WEIR_REPORT(ACTIVE) | WEIR_REPORT(UTILIZATION));
	UNTIL(lab, lab->probes == probes + 1);
	assert_int_equal(lab->probe.wants, WEIR_REPORT(ACTIVE) | WEIR_REPORT(UTILIZATION));
	UNTIL(lab, lab->probes >= probes + 10);
	UNTIL(lab, weir_agents_status(lab->agents, 5, &status) == 0 && status.interval_ms == 60000);
	run_ms(lab, 60);
	probes = lab->probes;
	// a request for fewer fields causes no additional probe
	weir_agents_set_wants(lab->agents, 5, WEIR_REPORT(ACTIVE));
	weir_agents_set_wants(lab->agents, 6, WEIR_REPORT(CPUS)); // backend 6 has no agent
	run_ms(lab, 150);
	assert_int_equal(lab->probes, probes);
	target.wants |= WEIR_REPORT(CPUS);
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->probes == probes + 1);
	assert_int_equal(lab->probe.wants, WEIR_REPORT(ACTIVE) | WEIR_REPORT(CPUS));
}

static struct weir_agent_tcp tcp_figures(const struct lab *lab, uint64_t clock_ms) {
	struct weir_agent_tcp tcp = {.agent = lab->answer.agent,
		.balancer = lab->probe.balancer,
		.clock_ms = clock_ms,
		.ipv4 = {.connections = 7}};

	memcpy(tcp.challenge, lab->probe.challenge, sizeof(tcp.challenge));
	return tcp;
}

static void send_tcp(struct lab *lab, const struct weir_agent_tcp *tcp) {
	uint8_t bytes[WEIR_AGENT_MESSAGE_BYTES];

	weir_agent_tcp_encode(tcp, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(bytes));
}

// Two backends of different services have the same agent. Only the backend that needs TCP
// statistics gets them.
TEST(tcp_figures_are_for_the_backends_that_want_them) {
	struct lab *lab = *state;
	struct weir_agents_target targets[] = {target_of(lab, 5), target_of(lab, 9)};
	struct weir_agent_tcp tcp;

	targets[1].wants |= WEIR_AGENT_TCP_FIGURES;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	UNTIL(lab, lab->answered >= 4);
	assert_int_equal(lab->probe.wants, WEIR_REPORT(ACTIVE) | WEIR_AGENT_TCP_FIGURES);
	tcp = tcp_figures(lab, 2000);
	send_tcp(lab, &tcp);
	UNTIL(lab, lab->tcps == 1);
	assert_int_equal(lab->tcps_of_9, 1);
	assert_int_equal(lab->tcp.ipv4.connections, 7);
	// TCP statistics do not change states and load.
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	weir_agents_set_wants(lab->agents, 9, WEIR_REPORT(ACTIVE));
	tcp = tcp_figures(lab, 2001);
	send_tcp(lab, &tcp);
	run_ms(lab, 20);
	assert_int_equal(lab->tcps, 1);
	assert_int_equal(refused(lab, WEIR_AGENT_REFUSAL_KIND), 0);
}

TEST(tcp_figures_that_are_old_or_of_others_are_refused) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 9);
	struct weir_agent_tcp tcp, first;

	target.interval_ms = target.timeout_ms = 200;
	target.inactive_interval_ms = 400;
	target.wants |= WEIR_AGENT_TCP_FIGURES;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 1);
	first = tcp = tcp_figures(lab, 2000);
	send_tcp(lab, &tcp);
	send_tcp(lab, &tcp); // the same clock_ms, as if two probes arrived within a millisecond
	UNTIL(lab, lab->tcps == 2);
	tcp.clock_ms = 1999;
	send_tcp(lab, &tcp); // statistics from an earlier time
	tcp.clock_ms = 3000;
	tcp.agent++; // statistics of another process
	send_tcp(lab, &tcp);
	tcp.agent--;
	tcp.challenge[3] ^= 1;
	send_tcp(lab, &tcp);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE) == 3);
	tcp.challenge[3] ^= 1;
	tcp.balancer++;
	send_tcp(lab, &tcp);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_BALANCER) == 1);
	tcp.balancer--;
	tcp.ipv6.sent_bytes = UINT64_MAX;
	send_tcp(lab, &tcp);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_VALUE) == 1);
	assert_int_equal(lab->tcps, 2);
	// These statistics contain the challenge of a probe older than the last two probes.
	UNTIL(lab, memcmp(lab->probe.challenge, first.challenge, sizeof(first.challenge)) != 0);
	UNTIL(lab, lab->answered >= 4);
	first.clock_ms = 5000;
	send_tcp(lab, &first);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE) == 4);
	// The clock of another process starts from 0.
	lab->answer.agent = 0xb2;
	lab->answer.clock_ms = 10;
	UNTIL(lab, lab->probe.agent == 0xb2);
	tcp = tcp_figures(lab, 20);
	send_tcp(lab, &tcp);
	UNTIL(lab, lab->tcps == 3);
}

// The agent answers each probe with a new state. If each new state caused an additional probe,
// there would be thousands of probes per second.
TEST(endless_new_words_are_limited) {
	struct lab *lab = *state;

	lab->answers = false;
	lab->flaps = true;
	configure(lab, 5);
	run_ms(lab, 1000); // at most 27 regular probes, and 20 + 10 for new states
	assert_in_range(lab->probes, 20, 65);
	assert_in_range(lab->reports, 20, 110);
	assert_true(refused(lab, WEIR_AGENT_REFUSAL_OFTEN) > 0);
	// The last state is accepted when the agent repeats it.
	lab->flaps = false;
	lab->answer.serial++;
	lab->answer.unasked = 1;
	lab->answer.word = WEIR_HEALTH_WORD_DOWN;
	for (unsigned int i = 0; lab->report.word != WEIR_HEALTH_WORD_DOWN; i++) {
		assert_in_range(i, 0, 20);
		answer(lab);
		run_ms(lab, 50);
	}
}

// While the loop is busy, more datagrams arrive than the loop reads in one iteration. The last
// datagram is the answer of the agent.
TEST(answer_after_a_flood_is_in_time) {
	static const uint8_t garbage[8] = {0};
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	unsigned int probes, answered;

	target.interval_ms = 400;
	target.timeout_ms = 100;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	do { // try again if this process got no CPU time for the duration of a timeout
		lab->answers = true;
		answered = lab->answered;
		UNTIL(lab, lab->answered > answered);
		run_ms(lab, 50); // the state is confirmed
		lab->answers = false;
		lab->silent = 0;
		probes = lab->probes;
		UNTIL(lab, lab->probes > probes);
	} while (lab->silent > 0);
	answered = lab->answered;
	for (int i = 0; i < 1500; i++) {
		send_bytes(lab, garbage, sizeof(garbage));
	}
	answer(lab);
	usleep(120000);
	UNTIL(lab, lab->answered + lab->silent > answered);
	assert_int_equal(lab->silent, 0);
	assert_int_equal(refused(lab, WEIR_AGENT_REFUSAL_LENGTH), 1500);
}

// A silent agent must be detected even during a flood of datagrams.
TEST(silent_agent_is_detected_in_a_flood) {
	static const uint8_t garbage[8] = {0};
	struct lab *lab = *state;
	uint64_t begin_ns;

	lab->answers = false;
	configure(lab, 5);
	UNTIL(lab, lab->probes > 0);
	begin_ns = uv_hrtime();
	while (lab->silent == 0) {
		assert_true(uv_hrtime() - begin_ns < UINT64_C(10000000000));
		for (int i = 0; i < 1500; i++) {
			send_bytes(lab, garbage, sizeof(garbage));
		}
		run_ms(lab, 1);
	}
}

// A probe may be sent early, by up to a sixteenth of the interval. The previous probe must have
// timed out by then.
TEST(silent_agent_is_detected_with_a_timeout_of_the_interval) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);

	lab->answers = false;
	target.interval_ms = target.inactive_interval_ms = target.timeout_ms = 64;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->probes >= 4);
	assert_in_range(lab->silent, 3, 4);
}

// Probes to many agents become due while the loop is busy. Afterwards these agents must not all be
// probed at the same time.
TEST(agents_are_spread_after_a_busy_loop) {
	struct weir_agents_target targets[100];
	struct lab *lab = *state;

	for (uint16_t i = 0; i < 100; i++) {
		targets[i] = target_of(lab, i);
		targets[i].address.bytes[2] = (uint8_t)(i + 1);
		targets[i].interval_ms = 1000;
		targets[i].inactive_interval_ms = 1000;
	}
	assert_int_equal(weir_agents_configure(lab->agents, targets, 100), 0);
	usleep(150000);
	run_ms(lab, 20);
	assert_in_range(weir_agents_counts(lab->agents).probes, 1, 80);
	assert_in_range(weir_agents_counts(lab->agents).late_ms, 0, 60);
	UNTIL(lab, weir_agents_counts(lab->agents).probes >= 100);
}

// The process pauses, and sends a probe 150 ms late, only 50 ms before the following probe is due.
// The agent must still have its whole timeout to answer the late probe.
TEST(late_probe_keeps_its_timeout) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);

	lab->answers = false;
	target.interval_ms = 200;
	target.timeout_ms = 150;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->silent == 1);
	usleep(200000); // from 150 to 350 ms after a probe
	UNTIL(lab, lab->silent == 2);
	assert_in_range(lab->shortest_ms, 149, UINT64_MAX);
}

// None of these answers causes a report or changes the state of the agent.
TEST(hostile_answers_are_counted_and_ignored) {
	struct lab *lab = *state;
	uint8_t good[WEIR_AGENT_MESSAGE_BYTES], bytes[WEIR_AGENT_MESSAGE_BYTES + 1] = {0};
	struct weir_agent_key stranger = {.id = 12};
	struct weir_agent_answer former;
	unsigned int reports;
	int other;

	lab->answer.clock_ms = 1;
	configure(lab, 5);
	UNTIL(lab, lab->answered >= 2);
	lab->answers = false;
	reports = lab->reports;
	lab->answer.word = WEIR_HEALTH_WORD_LAME_DUCK;
	lab->answer.serial = 2;
	lab->answer.unasked = 1;
	encode(lab, &lab->keys.key[0], good);
	memcpy(bytes, good, sizeof(good));
	send_bytes(lab, bytes, sizeof(good) - 1);
	send_bytes(lab, bytes, sizeof(good) + 1);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_LENGTH) == 2);
	bytes[60] ^= 1;
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_MAC) == 1);
	encode(lab, &stranger, bytes);
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_KEY) == 1);
	stranger.id = 7; // a known id, but a different secret
	encode(lab, &stranger, bytes);
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_MAC) == 2);
	other = socket(AF_INET, SOCK_DGRAM, 0);
	sendto(other, good, sizeof(good), 0, (struct sockaddr *)&lab->from, sizeof(lab->from));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SENDER) == 1);
	close(other);
	former = lab->answer;
	former.balancer ^= 1;
	weir_agent_answer_encode(&former, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_BALANCER) == 1);
	former = lab->answer;
	former.challenge[3] ^= 1;
	weir_agent_answer_encode(&former, &lab->keys.key[0], bytes);
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE) == 1);
	assert_int_equal(lab->reports, reports);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
}

// Two replays have no effect: a recorded lame-duck answer after the backend has announced "ready"
// again, and a second answer to the same probe.
TEST(replays_change_nothing) {
	struct lab *lab = *state;
	uint8_t duck[WEIR_AGENT_MESSAGE_BYTES], again[WEIR_AGENT_MESSAGE_BYTES];

	configure(lab, 5);
	UNTIL(lab, lab->answered >= 2);
	lab->answers = false;
	UNTIL(lab, lab->silent == 1);
	lab->answer.word = WEIR_HEALTH_WORD_LAME_DUCK;
	lab->answer.serial = 2;
	lab->answer.unasked = 1;
	encode(lab, &lab->keys.key[0], duck);
	send_bytes(lab, duck, sizeof(duck));
	UNTIL(lab, lab->report.word == WEIR_HEALTH_WORD_LAME_DUCK);
	lab->answer.word = WEIR_HEALTH_WORD_READY;
	lab->answer.serial = 3;
	lab->answer.unasked = 0;
	encode(lab, &lab->keys.key[0], again);
	send_bytes(lab, again, sizeof(again));
	UNTIL(lab, lab->report.word == WEIR_HEALTH_WORD_READY);
	send_bytes(lab, again, sizeof(again));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE) >= 1);
	send_bytes(lab, duck, sizeof(duck));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_SERIAL) +
				   refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE) >=
			   2);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
	// Answers of an earlier agent process do not change the state either.
	lab->answer.agent = 0xb2;
	lab->answer.serial = 1;
	lab->answers = true;
	UNTIL(lab, lab->probe.agent == 0xb2);
	lab->answers = false;
	send_bytes(lab, duck, sizeof(duck));
	run_ms(lab, 30);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_READY);
}

// An answer has sums since the start of the agent process. The report has the mean since the
// previous answer. Sums of a new agent process are not compared with sums of the previous process.
TEST(sums_become_means) {
	struct lab *lab = *state;

	lab->answers = false;
	lab->answer.given = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT);
	lab->answer.service_sum_us = 1000000;
	lab->answer.service_count = 100;
	configure(lab, 5);
	UNTIL(lab, lab->probes == 1);
	answer(lab);
	UNTIL(lab, lab->reports == 1);
	assert_int_equal(lab->report.given, 0);
	UNTIL(lab, lab->probes == 2);
	lab->answer.clock_ms += 500;
	lab->answer.service_sum_us += 60000;
	lab->answer.service_count += 3;
	answer(lab);
	UNTIL(lab, lab->reports == 2);
	assert_true(lab->report.service_time_ms == 20);
	assert_true(lab->report.service_count == 3);
	UNTIL(lab, lab->probes >= 3);
	lab->answer.agent = 0xb2;
	lab->answer.clock_ms = 10;
	answer(lab);
	UNTIL(lab, lab->reports == 3);
	assert_int_equal(lab->report.given, 0);
}

TEST(impossible_values_are_counted) {
	struct lab *lab = *state;

	lab->answer.given = WEIR_REPORT(ACTIVE) | WEIR_REPORT(UTILIZATION);
	lab->answer.active = UINT32_MAX;
	lab->answer.utilization_ppm = 500000;
	configure(lab, 5);
	UNTIL(lab, lab->reports >= 2);
	assert_int_equal(lab->report.given, WEIR_REPORT(UTILIZATION));
	assert_int_equal(weir_agents_counts(lab->agents).dropped_fields, lab->reports);
}

TEST(silent_agent_fails_and_is_reported_once) {
	struct lab *lab = *state;

	lab->answers = false;
	configure(lab, 5);
	UNTIL(lab, lab->silent >= WEIR_AGENT_SILENT_PROBES + 1);
	assert_int_equal(lab->gone, 0); // the agent never answered, so it cannot be lost
	lab->answers = true;
	UNTIL(lab, lab->answered >= 2);
	lab->answers = false;
	lab->silent = 0;
	UNTIL(lab, lab->silent >= WEIR_AGENT_SILENT_PROBES + 1);
	assert_int_equal(lab->gone, 1);
}

TEST(silent_agent_without_a_link_is_not_lost) {
	struct lab *lab = *state;

	configure(lab, 5);
	UNTIL(lab, lab->answered >= 2);
	lab->no_link = true;
	lab->answers = false;
	UNTIL(lab, lab->unknown >= WEIR_AGENT_SILENT_PROBES + 2);
	assert_int_equal(lab->silent, 0);
	assert_int_equal(lab->gone, 0);
	lab->no_link = false;
	UNTIL(lab, lab->gone == 1);
	assert_int_equal(lab->silent_when_gone, WEIR_AGENT_SILENT_PROBES);
}

// The port of the agent changes, and the agent never answers at the new port. The agent
// must be reported as lost. Otherwise its old reports would stay in use as long as another source
// reports on the backend.
TEST(moved_agent_that_never_answers_is_lost) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 3);

	configure(lab, 3);
	UNTIL(lab, lab->answered >= 2);
	target.port ^= 1;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->silent > 2 * WEIR_AGENT_SILENT_PROBES);
	assert_int_equal(lab->gone, 1);
	configure(lab, 4); // a backend that had no agent before
	UNTIL(lab, lab->answered >= 4);
	assert_int_equal(lab->gone, 1);
}

TEST(inactive_agent_is_probed_less_often) {
	struct lab *lab = *state;
	unsigned int probes;

	configure(lab, 5);
	UNTIL(lab, lab->answered >= 5);
	run_ms(lab, 50);
	probes = lab->probes;
	run_ms(lab, 1000); // 2 or 3 probes at an interval of 400 ms; 25 at 40 ms
	assert_in_range(lab->probes - probes, 1, 4);
	assert_int_equal(lab->probe.interval_ms, 400);
	weir_agents_set_active(lab->agents, 5, true);
	probes = lab->probes;
	run_ms(lab, 1000);
	assert_in_range(lab->probes - probes, 12, 30);
	assert_int_equal(lab->probe.interval_ms, 40);
}

// weir_agents_hasten makes probes frequent again, so that a check of type agent soon gets its
// `rise` answers.
TEST(hastened_agent_is_probed_at_the_interval) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	unsigned int probes;

	target.inactive_interval_ms = 60000;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 5);
	run_ms(lab, 60); // probes are less frequent from now on
	probes = lab->probes;
	run_ms(lab, 150);
	assert_int_equal(lab->probes, probes);
	weir_agents_hasten(lab->agents, 6); // backend 6 has no agent
	weir_agents_hasten(lab->agents, 5);
	UNTIL(lab, lab->probes == probes + target.settled);
	run_ms(lab, 150);
	assert_in_range(lab->probes, probes + target.settled, probes + target.settled + 1);
}

TEST(words_of_ports_are_reported) {
	struct lab *lab = *state;

	lab->answer.given = WEIR_AGENT_PORT_WORDS;
	lab->answer.port_word_count = 1;
	lab->answer.port_words[0] = (struct weir_port_word){80, 6, WEIR_HEALTH_WORD_DOWN, 1};
	configure(lab, 5);
	UNTIL(lab, lab->reports > 0);
	assert_int_equal(lab->report.port_word_count, 1);
	assert_memory_equal(&lab->report.port_words[0], &lab->answer.port_words[0],
		sizeof(lab->answer.port_words[0]));
}

// If two services have a backend on the same server, the agent gets one probe for both backends.
TEST(backends_share_an_agent) {
	struct lab *lab = *state;
	struct weir_agents_target targets[2] = {target_of(lab, 5), target_of(lab, 9)};
	struct weir_agents_status status;
	uint64_t probes;

	targets[1].wants = WEIR_REPORT(QUEUE);
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	UNTIL(lab, lab->answered >= 6);
	assert_int_equal(lab->answered, lab->reports);
	assert_int_equal(lab->probe.wants, WEIR_REPORT(ACTIVE) | WEIR_REPORT(QUEUE));
	assert_int_equal(weir_agents_status(lab->agents, 9, &status), 0);
	probes = status.probes;
	configure(lab, 9); // one of the backends is removed, but the agent remains
	assert_int_equal(weir_agents_status(lab->agents, 9, &status), 0);
	assert_int_equal(status.probes, probes);
	assert_int_equal(weir_agents_status(lab->agents, 5, &status), -ENOENT);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	run_ms(lab, 60);
	probes = lab->probes;
	run_ms(lab, 100);
	assert_int_equal(lab->probes, probes);
}

// A reload adds a second service whose backend has the same idle agent. The service must get a
// report at once, not only after the next regular probe.
TEST(added_service_gets_the_report_of_an_idle_agent_soon) {
	struct lab *lab = *state;
	struct weir_agents_target targets[2] = {target_of(lab, 5), target_of(lab, 9)};

	targets[0].inactive_interval_ms = targets[1].inactive_interval_ms = 60000;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 1), 0);
	UNTIL(lab, lab->answered >= 4);
	run_ms(lab, 100);
	lab->answered = 0;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 1), 0);
	run_ms(lab, 200);
	assert_int_equal(lab->answered, 0); // no probe is in flight
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	UNTIL(lab, lab->reports_of_9 >= 2);
}

// A server with IPv4 and IPv6 has two addresses, which are probed separately. The agent must not
// refuse the probes to one of the addresses as replays.
TEST(server_with_two_addresses_is_probed_at_each) {
	struct lab *lab = *state;
	struct weir_agents_target targets[2] = {target_of(lab, 5), target_of(lab, 9)};
	struct weir_agents_status status;

	targets[1].address.bytes[3] = 2;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	UNTIL(lab, lab->probes_at[0] >= 4 && lab->probes_at[1] >= 4);
	UNTIL(lab, lab->answered >= 8);
	assert_int_equal(lab->silent, 0);
	assert_int_equal(weir_agents_status(lab->agents, 9, &status), 0);
	assert_true(status.answers);
}

TEST(readded_backend_is_probed_from_the_start) {
	struct lab *lab = *state;

	configure(lab, 5);
	UNTIL(lab, lab->answered >= 5);
	assert_int_equal(weir_agents_configure(lab->agents, NULL, 0), 0);
	run_ms(lab, 60);
	lab->answered = 0;
	configure(lab, 5);
	UNTIL(lab, lab->answered >= 2);
	assert_int_equal(lab->silent, 0);
}

TEST(invalid_targets_change_nothing) {
	struct lab *lab = *state;
	struct weir_agents_target good = target_of(lab, 5), twice[2] = {good, good};
	struct weir_agents_status status;

	configure(lab, 5);
	assert_int_equal(weir_agents_configure(lab->agents, twice, 2), -EINVAL);
	twice[0].interval_ms = 0;
	assert_int_equal(weir_agents_configure(lab->agents, twice, 1), -EINVAL);
	twice[0] = good;
	twice[0].timeout_ms = 41;
	assert_int_equal(weir_agents_configure(lab->agents, twice, 1), -EINVAL);
	twice[0] = good;
	twice[0].port = 0;
	assert_int_equal(weir_agents_configure(lab->agents, twice, 1), -EINVAL);
	assert_int_equal(weir_agents_status(lab->agents, 5, &status), 0);
	UNTIL(lab, lab->answered >= 1);
}

TEST(no_agent_is_probed_without_keys) {
	struct lab *lab = *state;
	struct weir_agent_keys none = {0};

	weir_agents_set_keys(lab->agents, &none);
	configure(lab, 5);
	UNTIL(lab, lab->unknown >= 2);
	assert_int_equal(lab->probes, 0);
	weir_agents_set_keys(lab->agents, &lab->keys);
	UNTIL(lab, lab->answered >= 1);
	assert_int_equal(lab->probe.key_id, 7);
}
