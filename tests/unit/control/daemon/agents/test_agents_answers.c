// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the contents of answers: reports, TCP statistics, and answers that must be refused.
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agents_lab.h"

TEST_EACH(lab_setup, lab_teardown);

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
	// TCP statistics do not change the reported state or load.
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
	encode_answer(lab, &lab->keys.key[0], good);
	memcpy(bytes, good, sizeof(good));
	send_bytes(lab, bytes, sizeof(good) - 1);
	send_bytes(lab, bytes, sizeof(good) + 1);
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_LENGTH) == 2);
	bytes[60] ^= 1;
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_MAC) == 1);
	encode_answer(lab, &stranger, bytes);
	send_bytes(lab, bytes, sizeof(good));
	UNTIL(lab, refused(lab, WEIR_AGENT_REFUSAL_KEY) == 1);
	stranger.id = 7; // a known id, but a different secret
	encode_answer(lab, &stranger, bytes);
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
	encode_answer(lab, &lab->keys.key[0], duck);
	send_bytes(lab, duck, sizeof(duck));
	UNTIL(lab, lab->report.word == WEIR_HEALTH_WORD_LAME_DUCK);
	lab->answer.word = WEIR_HEALTH_WORD_READY;
	lab->answer.serial = 3;
	lab->answer.unasked = 0;
	encode_answer(lab, &lab->keys.key[0], again);
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
	answer_probe(lab);
	UNTIL(lab, lab->reports == 1);
	assert_int_equal(lab->report.given, 0);
	UNTIL(lab, lab->probes == 2);
	lab->answer.clock_ms += 500;
	lab->answer.service_sum_us += 60000;
	lab->answer.service_count += 3;
	answer_probe(lab);
	UNTIL(lab, lab->reports == 2);
	assert_true(lab->report.service_time_ms == 20);
	assert_true(lab->report.service_count == 3);
	UNTIL(lab, lab->probes >= 3);
	lab->answer.agent = 0xb2;
	lab->answer.clock_ms = 10;
	answer_probe(lab);
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
