// SPDX-License-Identifier: BSD-3-Clause
//
// Answers: validation, and their effects.
#include <stdio.h>
#include <string.h>

#include "agents_private.h"

#define CONFIRM_MS 50 // minimum time between confirmations of a word that the agent repeats
// Rate limit of new words, each of which costs an extra probe, a log line and a publication: a
// burst of WORDS_AT_ONCE, then one per WORD_MS. An agent repeats a refused word until it is
// accepted.
#define WORDS_AT_ONCE 20u
#define WORD_MS 100u

// The index of the probe with this challenge; -1 = none of the last two.
static int find_probe(const struct agent *agent, const uint8_t *challenge) {
	for (int i = 0; i < 2; i++) {
		if (agent->probe[i].state != PROBE_NONE &&
			memcmp(agent->probe[i].challenge, challenge, WEIR_AGENT_CHALLENGE_BYTES) ==
				0) {
			return i;
		}
	}
	return -1;
}

static bool is_same_process(const struct agent *agent, const struct weir_agent_answer *answer) {
	return agent->has_last && agent->last.agent == answer->agent;
}

// Whether the answer is older than the last accepted one: the newest probe was already answered, so
// an answer of another process to it, or any answer to the previous probe, was sent earlier.
static bool is_outdated(const struct agent *agent, const struct weir_agent_answer *answer, int i) {
	return agent->probe[0].state == PROBE_ANSWERED &&
	       (i != 0 || !is_same_process(agent, answer));
}

// Whether the rate limit permits another extra probe.
static bool may_confirm(const struct agent *agent) {
	return agent->words_ms < weir_agents_now_ms() + WORDS_AT_ONCE * WORD_MS;
}

static enum weir_agent_refusal judge_unasked(
	const struct agent *agent, const struct weir_agent_answer *answer, int i) {
	if (is_same_process(agent, answer)) {
		if (answer->serial <= agent->serial) {
			return WEIR_AGENT_REFUSAL_SERIAL;
		}
	} else if (agent->probe[i].state == PROBE_ANSWERED || is_outdated(agent, answer, i)) {
		// Another process can use that challenge only if the previous one did not answer
		// it.
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	return may_confirm(agent) ? WEIR_AGENT_REFUSAL_NONE : WEIR_AGENT_REFUSAL_OFTEN;
}

static enum weir_agent_refusal judge(
	const struct agent *agent, const struct weir_agent_answer *answer, int i) {
	if (answer->balancer != agent->balancer) {
		return WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (i < 0) {
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	if (answer->unasked != 0) {
		return judge_unasked(agent, answer, i);
	}
	if (agent->probe[i].state == PROBE_ANSWERED || is_outdated(agent, answer, i)) {
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

static void report(struct agent *agent, const struct weir_agent_answer *answer) {
	struct weir_agents *agents = agent->agents;
	struct weir_report report;

	agents->counts.dropped_fields += (uint64_t)__builtin_popcount(
		weir_agent_answer_report(answer, agent->has_last ? &agent->last : NULL, &report));
	agent->last = *answer;
	agent->has_last = true;
	agent->answer_ns = uv_hrtime();
	for (uint32_t link = agent->members; link != 0; link = agents->members[link - 1].next) {
		agents->events.report(agents->events.context, (uint16_t)(link - 1), &report);
	}
}

// Confirm a word at once, by an extra probe: the agent repeats it until it is confirmed.
static void confirm(struct agent *agent) {
	uint64_t now_ms = weir_agents_now_ms();

	if (!may_confirm(agent)) {
		return; // the next regular probe confirms it
	}
	agent->confirmed_ms = now_ms;
	agent->words_ms = (agent->words_ms > now_ms ? agent->words_ms : now_ms) + WORD_MS;
	weir_agents_probe(agent);
	weir_agents_schedule(agent);
}

static void take(struct agent *agent, const struct weir_agent_answer *answer, int i) {
	bool same = is_same_process(agent, answer);
	bool is_new = !same || answer->serial > agent->serial;
	// An unsolicited answer, or one to a later probe, has overtaken it.
	bool late =
		same && (answer->serial < agent->serial || answer->clock_ms < agent->last.clock_ms);
	bool in_time = answer->unasked == 0 && i == 0 && agent->awaiting;

	agent->agents->counts.answers++;
	if (answer->unasked != 0) {
		agent->agents->counts.unasked++;
	} else {
		agent->probe[i].state = PROBE_ANSWERED;
	}
	if (!late) {
		if (is_new) {
			agent->serial = answer->serial;
		}
		report(agent, answer);
	}
	if (in_time) {
		weir_agents_end_probe(agent, WEIR_AGENTS_ANSWERED, "weir-agent answered");
	}
	if (is_new && answer->serial != 0) {
		confirm(agent);
	}
}

static void refuse(struct agent *agent, const struct weir_agent_answer *answer, int i,
	enum weir_agent_refusal refusal) {
	agent->agents->counts.refused[refusal]++;
	if (refusal == WEIR_AGENT_REFUSAL_SERIAL && i >= 0 && answer->serial == agent->serial &&
		weir_agents_now_ms() >= agent->confirmed_ms + CONFIRM_MS) {
		confirm(agent);
	}
}

void weir_agents_take(struct agent *agent, const uint8_t *bytes, size_t count) {
	struct weir_agents *agents = agent->agents;
	struct weir_agent_answer answer;
	enum weir_agent_refusal refusal;
	int i;

	if (weir_agent_message_kind(bytes, count) == WEIR_AGENT_STEAL_ANSWER) {
		weir_agents_steals_take(agent, bytes, count);
		return;
	}
	refusal = weir_agent_answer_decode(bytes, count, &agents->keys, &answer);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		agents->counts.refused[refusal]++;
		return;
	}
	i = find_probe(agent, answer.challenge);
	refusal = judge(agent, &answer, i);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		refuse(agent, &answer, i, refusal);
		return;
	}
	take(agent, &answer, i);
}
