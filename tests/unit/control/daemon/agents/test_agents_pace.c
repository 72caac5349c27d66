// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the times of probes: intervals, timeouts, and late probes, also while the loop is busy
// or flooded.
#include <unistd.h>

#include "agents_lab.h"

TEST_EACH(lab_setup, lab_teardown);

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
	answer_probe(lab);
	run_ms(lab, 20);
	assert_int_equal(lab->report.word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_int_equal(lab->probes, probes + 1);
	assert_int_equal(lab->probe.acknowledged, 2);
	// The agent repeats its state, as if it had not received the confirmation.
	answer_probe(lab);
	run_ms(lab, 20);
	assert_int_equal(refused(lab, WEIR_AGENT_REFUSAL_SERIAL), 1);
	assert_int_equal(lab->probes, probes + 1);
	UNTIL(lab, lab->probes > probes + 1 || lab->silent > 0);
	run_ms(lab, 50);
	answer_probe(lab);
	UNTIL(lab, lab->probes > probes + 1);
}

// Probe the agent until probes are less frequent. Returns the number of probes so far.
static unsigned int probe_rarely(struct lab *lab, struct weir_agents_target *target) {
	unsigned int probes;

	target->inactive_interval_ms = 60000;
	assert_int_equal(weir_agents_configure(lab->agents, target, 1), 0);
	UNTIL(lab, lab->answered >= 5);
	run_ms(lab, 60); // probes are less frequent from now on
	probes = lab->probes;
	run_ms(lab, 150);
	assert_int_equal(lab->probes, probes);
	return probes;
}

// weir-control requests additional fields within an interval, and sends another probe after the
// agent has had time to measure. Then probes become less frequent again.
TEST(agent_gets_additional_fields_soon) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	struct weir_agents_status status;
	unsigned int probes;

	probes = probe_rarely(lab, &target);
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
		answer_probe(lab);
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
	answer_probe(lab);
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

// The next probe ends the wait for an answer, so it is not sent early.
TEST(silent_agent_is_detected_with_a_timeout_of_the_interval) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);

	lab->answers = false;
	target.interval_ms = target.inactive_interval_ms = target.timeout_ms = 160;
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
}

// Two services share an agent. The timeout of one is above the interval of the other.
TEST(timeout_of_a_shared_agent_is_at_most_its_interval) {
	struct lab *lab = *state;
	struct weir_agents_target targets[2] = {target_of(lab, 5), target_of(lab, 9)};

	lab->answers = false;
	targets[1].interval_ms = targets[1].timeout_ms = 400;
	assert_int_equal(weir_agents_configure(lab->agents, targets, 2), 0);
	UNTIL(lab, lab->silent >= 4);
}

// A state is announced, and so confirmed by an additional probe, just before the next probe.
TEST(additional_probe_keeps_its_timeout) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);

	target.interval_ms = target.inactive_interval_ms = 300;
	target.timeout_ms = 250;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 2);
	run_ms(lab, 150);
	lab->answers = false;
	lab->answer.serial = 2;
	lab->answer.unasked = 1;
	answer_probe(lab);
	UNTIL(lab, lab->silent > 0);
}

// The backend gets flows, and so the agent a shorter interval, while a probe has no answer yet.
TEST(probe_keeps_its_timeout_when_the_interval_becomes_shorter) {
	struct lab *lab = *state;
	struct weir_agents_target target = target_of(lab, 5);
	unsigned int probes;

	target.interval_ms = target.timeout_ms = 200;
	target.inactive_interval_ms = 1000;
	target.settled = 1;
	assert_int_equal(weir_agents_configure(lab->agents, &target, 1), 0);
	UNTIL(lab, lab->answered >= 3);
	lab->answers = false;
	probes = lab->probes;
	UNTIL(lab, lab->probes > probes);
	weir_agents_set_active(lab->agents, 5, true);
	UNTIL(lab, lab->silent > 0);
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

	probes = probe_rarely(lab, &target);
	weir_agents_hasten(lab->agents, 6); // backend 6 has no agent
	weir_agents_hasten(lab->agents, 5);
	UNTIL(lab, lab->probes == probes + target.settled);
	run_ms(lab, 150);
	assert_in_range(lab->probes, probes + target.settled, probes + target.settled + 1);
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
