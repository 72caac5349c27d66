// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of the life of an agent: targets that are added, moved, shared and removed, keys, and
// agents that are lost.
#include <errno.h>
#include <sys/socket.h>

#include "agents_lab.h"

TEST_EACH(lab_setup, lab_teardown);

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

static bool two_fail_first; // the first datagram of the next batch of two is not sent

int __real_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);
int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags);

int __wrap_sendmmsg(int fd, struct mmsghdr *messages, unsigned int n, int flags) {
	if (two_fail_first && n == 2) {
		two_fail_first = false;
		errno = ENOBUFS;
		return -1;
	}
	return __real_sendmmsg(fd, messages, n, flags);
}

// The agent announces two states at once, so two probes that confirm them are in one batch.
TEST(probe_that_cannot_be_sent_does_not_end_the_next_one) {
	struct lab *lab = *state;

	configure_slow(lab, 5);
	UNTIL(lab, lab->answered >= 2); // the state is confirmed
	lab->answer.unasked = 1;
	for (lab->answer.serial = 2; lab->answer.serial <= 3; lab->answer.serial++) {
		answer_probe(lab);
	}
	lab->answer.serial = 3;
	lab->answer.unasked = 0;
	two_fail_first = true;
	UNTIL(lab, lab->answered >= 3);
	assert_false(two_fail_first);
	assert_int_equal(lab->unknown, 0);
	assert_int_equal(refused(lab, WEIR_AGENT_REFUSAL_CHALLENGE), 0);
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
