// SPDX-License-Identifier: BSD-3-Clause
#include "agents_prober.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#define JITTER_SHARE 16 // a probe is sent up to 1/16 of the interval early, by a random time
// While the answer to a probe may be among unread datagrams, the deadline is this time from now.
#define WAIT_MORE_MS 4u
#define MEASURE_MS 1000 // time in which most agents measure a new field
#define CONFIRM_MS 50 // minimum time between two confirmations of a state that the agent repeats
// Rate limit of new announced states: a burst of WORDS_AT_ONCE, then one per WORD_MS. Each new
// state costs an extra probe, a log line and a publication. An agent repeats a refused state until
// the state is accepted.
#define WORDS_AT_ONCE 20u
#define WORD_MS 100u

enum probe_state {
	PROBE_NONE, // no probe was sent yet
	PROBE_SENT,
	PROBE_ANSWERED,
};

struct probe {
	uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES];
	uint64_t sent_ns;
	enum probe_state state;
};

struct weir_agents_prober {
	struct weir_agents_probing *probing;
	const struct weir_agents_peer *peer;
	void *owner;
	struct weir_agents_probe_settings settings;
	const uint8_t *datagram; // datagram of probe[0] in the batch of the sockets
	bool awaiting; // waiting for the answer to probe[0], until deadline_ms
	bool answers; // the last ended probe was answered; UNKNOWN probes are ignored
	bool has_last;
	bool lost; // the loss of the agent was reported, or no probe was answered so far
	uint64_t soon_ms; // until this time the agent is probed at interval_ms
	uint64_t next_ms; // time of the next probe
	uint64_t deadline_ms;
	uint64_t sequence; // sequence number of the last probe
	uint64_t answer_ns; // when the last answer was accepted
	uint64_t confirmed_ms; // when the last extra probe, which confirms a state, was sent
	// Limits the extra probes: each extra probe adds WORD_MS to this time, and no extra probe
	// is sent while this time is WORDS_AT_ONCE * WORD_MS or more ahead of now.
	uint64_t words_ms;
	// highest serial number in the accepted answers of the agent process with ID last.agent
	uint32_t serial;
	uint32_t streak;
	uint64_t probes, answered;
	struct probe probe[2]; // newest first
	struct weir_agent_answer last; // last accepted answer
	// clock in the last TCP statistics of the agent process with ID last.agent
	uint64_t tcp_clock_ms;
};

static uint64_t read_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// --- interval -----------------------------------------------------------------------------

// Returns a random number (SplitMix64).
static uint64_t next_random(struct weir_agents_probing *probing) {
	uint64_t x = probing->random += UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 31;
}

static uint64_t interval_of(const struct weir_agents_prober *prober) {
	bool slow = !prober->settings.active && prober->streak >= prober->settings.settled &&
		    read_now_ms() >= prober->soon_ms;

	return slow ? prober->settings.inactive_interval_ms : prober->settings.interval_ms;
}

// Schedules the next probe one interval, less a random time, after the time at which this probe was
// due, not one interval from now. The probes of all agents therefore stay spread over time, even if
// this process paused and all probes are due at the same time.
static void set_next(struct weir_agents_prober *prober, uint64_t now_ms) {
	uint64_t interval = interval_of(prober), most_early = interval / JITTER_SHARE;
	uint64_t spare = interval - prober->settings.timeout_ms;
	uint64_t early =
		next_random(prober->probing) % ((most_early < spare ? most_early : spare) + 1);

	prober->next_ms += interval - early;
	if (prober->next_ms <= now_ms) {
		prober->next_ms += ((now_ms - prober->next_ms) / interval + 1) * interval;
	}
	if (prober->next_ms > now_ms + interval) {
		prober->next_ms = now_ms + interval - early;
	}
}

// Postpones the next probe if it is due before the deadline of this probe, because it would end the
// wait for the answer to this probe. A difference of at most 1/JITTER_SHARE of the interval
// postpones it to the deadline, a larger one by an interval, so that the probes of all agents stay
// spread over time.
static void keep_wait(struct weir_agents_prober *prober) {
	uint64_t interval = interval_of(prober);

	if (prober->next_ms < prober->deadline_ms) {
		uint64_t missing_ms = prober->deadline_ms - prober->next_ms;

		prober->next_ms += missing_ms <= interval / JITTER_SHARE ? missing_ms : interval;
	}
}

// Schedules the next probe earlier if the interval has become shorter.
static void hasten(struct weir_agents_prober *prober) {
	uint64_t interval = interval_of(prober), now_ms = read_now_ms();

	// Choose a random time in the interval, because many agents may be rescheduled now.
	if (prober->next_ms > now_ms + interval) {
		prober->next_ms = now_ms + 1 + next_random(prober->probing) % interval;
		if (prober->awaiting && prober->next_ms < prober->deadline_ms) {
			prober->next_ms = prober->deadline_ms;
		}
	}
}

void weir_agents_prober_start(struct weir_agents_prober *prober,
	const struct weir_agents_probe_settings *settings, uint64_t due_ms) {
	prober->settings = *settings;
	prober->next_ms = due_ms;
}

void weir_agents_prober_delay(struct weir_agents_prober *prober, uint64_t delay_ms) {
	prober->next_ms += prober->probes == 0 ? delay_ms : 0;
}

void weir_agents_prober_set(
	struct weir_agents_prober *prober, const struct weir_agents_probe_settings *settings) {
	bool more = (settings->wants & ~prober->settings.wants) != 0;

	prober->settings = *settings;
	if (more) {
		prober->soon_ms = read_now_ms() + 2 * (uint64_t)settings->interval_ms + MEASURE_MS;
	}
	hasten(prober);
}

void weir_agents_prober_restart(struct weir_agents_prober *prober, bool moved) {
	prober->streak = 0;
	prober->lost &= !moved;
}

// --- probes -------------------------------------------------------------------------------

static void write_probe(const struct weir_agents_prober *prober, uint64_t now_ns, uint8_t *to) {
	const struct weir_agents_probing *probing = prober->probing;
	const struct weir_agents_peer *peer = prober->peer;
	struct weir_agent_probe probe = {
		.balancer = peer->balancer,
		.sequence = prober->sequence,
		.agent = prober->has_last ? prober->last.agent : 0,
		.clock_ms = (now_ns - probing->started_ns) / 1000000,
		// This is the longest regular interval: some probes are sent earlier.
		.interval_ms = prober->settings.active ? prober->settings.interval_ms
						       : prober->settings.inactive_interval_ms,
		.acknowledged = prober->serial,
		.wants = prober->settings.wants,
		.recipient_port = peer->port,
	};

	weir_agent_recipient(peer->address.family, peer->address.bytes, probe.recipient);
	memcpy(probe.challenge, prober->probe[0].challenge, sizeof(probe.challenge));
	weir_agent_probe_encode(&probe, &probing->keys->key[0], to);
}

// Add a new probe to the batch of datagrams, and start to wait for its answer.
static void send_probe(struct weir_agents_prober *prober) {
	struct weir_agents_probing *probing = prober->probing;
	uint64_t now_ns = uv_hrtime();
	uint8_t *datagram;

	prober->sequence++;
	prober->probes++;
	probing->counts->probes++;
	prober->probe[1] = prober->probe[0];
	prober->probe[0] = (struct probe){.sent_ns = now_ns, .state = PROBE_SENT};
	weir_agent_random_challenge(prober->probe[0].challenge);
	prober->awaiting = true;
	prober->deadline_ms = now_ns / 1000000 + prober->settings.timeout_ms;
	keep_wait(prober);
	prober->datagram = NULL; // weir_agents_sockets_add may report that an earlier probe failed
	datagram = weir_agents_sockets_add(
		probing->sockets, &prober->peer->address, prober->peer->port, prober->owner);
	prober->datagram = datagram;
	write_probe(prober, now_ns, datagram);
}

static void count_end(struct weir_agents_prober *prober, bool answered) {
	prober->streak = prober->answers == answered ? prober->streak + 1 : 1;
	prober->answers = answered;
	prober->answered += answered;
	if (answered) {
		prober->lost = false;
	} else {
		prober->probing->counts->silent++;
	}
}

// Ends the newest probe, and reports its outcome to the callback `ended`.
static void end_probe(
	struct weir_agents_prober *prober, enum weir_agents_outcome outcome, const char *detail) {
	uint32_t duration_ms = (uint32_t)((uv_hrtime() - prober->probe[0].sent_ns) / 1000000);
	char why[WEIR_AGENTS_DETAIL_BYTES];
	bool lost = false;

	prober->awaiting = false;
	if (outcome == WEIR_AGENTS_SILENT &&
		prober->probing->excuse(prober->owner, duration_ms, prober->settings.timeout_ms,
			why, sizeof(why))) {
		outcome = WEIR_AGENTS_UNKNOWN;
		detail = why;
	}
	if (outcome != WEIR_AGENTS_UNKNOWN) {
		count_end(prober, outcome == WEIR_AGENTS_ANSWERED);
		lost = !prober->answers && !prober->lost &&
		       prober->streak >= WEIR_AGENT_SILENT_PROBES;
		prober->lost |= lost;
		hasten(prober);
	}
	prober->probing->ended(prober->owner, outcome, detail, duration_ms, lost);
}

static void time_out(struct weir_agents_prober *prober) {
	char detail[WEIR_AGENTS_DETAIL_BYTES];

	snprintf(detail, sizeof(detail), "no answer from weir-agent within %u ms",
		prober->settings.timeout_ms);
	end_probe(prober, WEIR_AGENTS_SILENT, detail);
}

static void start_probe(struct weir_agents_prober *prober, uint64_t now_ms) {
	struct weir_agents_probing *probing = prober->probing;
	uint64_t late_ms = now_ms - prober->next_ms;

	if (late_ms > probing->counts->late_ms) {
		probing->counts->late_ms = late_ms;
	}
	set_next(prober, now_ms);
	if (probing->keys->count == 0) {
		prober->probe[0].sent_ns = uv_hrtime();
		end_probe(prober, WEIR_AGENTS_UNKNOWN, "weir-control has no key for agents");
	} else {
		send_probe(prober);
	}
}

// Returns whether the wait for an answer is over. unread: the answer may be among datagrams that
// were not read yet; the prober then waits longer, until the next probe is due at the latest.
static bool is_over(const struct weir_agents_prober *prober, uint64_t now_ms, bool unread) {
	return prober->next_ms <= now_ms || (prober->deadline_ms <= now_ms && !unread);
}

uint64_t weir_agents_prober_due_ms(const struct weir_agents_prober *prober) {
	return prober->awaiting && prober->deadline_ms < prober->next_ms ? prober->deadline_ms
									 : prober->next_ms;
}

void weir_agents_prober_run(struct weir_agents_prober *prober, uint64_t now_ms, bool unread) {
	if (prober->awaiting && is_over(prober, now_ms, unread)) {
		time_out(prober);
	} else if (prober->awaiting && prober->deadline_ms <= now_ms) {
		prober->deadline_ms = now_ms + WAIT_MORE_MS;
	}
	if (prober->next_ms <= now_ms) {
		start_probe(prober, now_ms);
	}
}

// Ends the newest probe if `bytes` is its datagram. If this host caused the error, the probe gives
// no information about the agent, and ends as UNKNOWN.
void weir_agents_prober_unsent(struct weir_agents_prober *prober, const uint8_t *bytes, int error) {
	bool is_local = error == -EAGAIN || error == -ENOBUFS || error == -ENOMEM ||
			error == -EPERM || error == -EACCES || error == -EAFNOSUPPORT ||
			error == -EADDRNOTAVAIL;

	if (bytes != prober->datagram) {
		return;
	}
	prober->probe[0].state = PROBE_NONE;
	end_probe(prober, is_local ? WEIR_AGENTS_UNKNOWN : WEIR_AGENTS_SILENT, strerror(-error));
}

// --- answers ------------------------------------------------------------------------------

// Returns the index of the probe with this challenge; -1 = not one of the last two probes.
static int find_probe(const struct weir_agents_prober *prober, const uint8_t *challenge) {
	for (int i = 0; i < 2; i++) {
		if (prober->probe[i].state != PROBE_NONE &&
			memcmp(prober->probe[i].challenge, challenge, WEIR_AGENT_CHALLENGE_BYTES) ==
				0) {
			return i;
		}
	}
	return -1;
}

static bool is_same_process(
	const struct weir_agents_prober *prober, const struct weir_agent_answer *answer) {
	return prober->has_last && prober->last.agent == answer->agent;
}

// Returns whether the answer is treated as older than the last accepted answer: the newest probe
// was answered already, and this answer has the challenge of the previous probe or comes from
// another agent process. i: index of the probe with the challenge of this answer.
static bool is_outdated(
	const struct weir_agents_prober *prober, const struct weir_agent_answer *answer, int i) {
	return prober->probe[0].state == PROBE_ANSWERED &&
	       (i != 0 || !is_same_process(prober, answer));
}

// Returns whether the rate limit of new states permits another state and its extra probe.
static bool may_confirm(const struct weir_agents_prober *prober) {
	return prober->words_ms < read_now_ms() + WORDS_AT_ONCE * WORD_MS;
}

static enum weir_agent_refusal judge_unsolicited(
	const struct weir_agents_prober *prober, const struct weir_agent_answer *answer, int i) {
	if (is_same_process(prober, answer)) {
		if (answer->serial <= prober->serial) {
			return WEIR_AGENT_REFUSAL_SERIAL;
		}
	} else if (prober->probe[i].state == PROBE_ANSWERED || is_outdated(prober, answer, i)) {
		// An answer from another process is accepted only if no process has answered the
		// probe with this challenge or a later probe.
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	return may_confirm(prober) ? WEIR_AGENT_REFUSAL_NONE : WEIR_AGENT_REFUSAL_OFTEN;
}

static enum weir_agent_refusal judge(
	const struct weir_agents_prober *prober, const struct weir_agent_answer *answer, int i) {
	if (answer->balancer != prober->peer->balancer) {
		return WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (i < 0) {
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	if (answer->unasked != 0) {
		return judge_unsolicited(prober, answer, i);
	}
	if (prober->probe[i].state == PROBE_ANSWERED || is_outdated(prober, answer, i)) {
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

static void report(struct weir_agents_prober *prober, const struct weir_agent_answer *answer) {
	struct weir_agents_probing *probing = prober->probing;
	struct weir_report report;

	probing->counts->dropped_fields += (uint64_t)__builtin_popcount(
		weir_agent_answer_report(answer, prober->has_last ? &prober->last : NULL, &report));
	if (!is_same_process(prober, answer)) {
		prober->tcp_clock_ms = 0;
	}
	prober->last = *answer;
	prober->has_last = true;
	prober->answer_ns = uv_hrtime();
	probing->report(prober->owner, &report);
}

// Sends an extra probe that confirms an announced state, if the rate limit permits it. The agent
// repeats the state until it is confirmed.
static void confirm(struct weir_agents_prober *prober) {
	uint64_t now_ms = read_now_ms();

	if (!may_confirm(prober)) {
		return; // the next regular probe confirms the state
	}
	prober->confirmed_ms = now_ms;
	prober->words_ms = (prober->words_ms > now_ms ? prober->words_ms : now_ms) + WORD_MS;
	send_probe(prober);
}

static void take(struct weir_agents_prober *prober, const struct weir_agent_answer *answer, int i) {
	bool same = is_same_process(prober, answer);
	bool is_new = !same || answer->serial > prober->serial;
	// True if a message that the agent sent later, unsolicited or for a later probe, arrived
	// before this answer.
	bool late = same &&
		    (answer->serial < prober->serial || answer->clock_ms < prober->last.clock_ms);
	bool in_time = answer->unasked == 0 && i == 0 && prober->awaiting;

	prober->probing->counts->answers++;
	if (answer->unasked != 0) {
		prober->probing->counts->unasked++;
	} else {
		prober->probe[i].state = PROBE_ANSWERED;
	}
	if (!late) {
		if (is_new) {
			prober->serial = answer->serial;
		}
		report(prober, answer);
	}
	if (in_time) {
		end_probe(prober, WEIR_AGENTS_ANSWERED, "weir-agent answered");
	}
	if (is_new && answer->serial != 0) {
		confirm(prober);
	}
}

static void refuse(struct weir_agents_prober *prober, const struct weir_agent_answer *answer, int i,
	enum weir_agent_refusal refusal) {
	prober->probing->counts->refused[refusal]++;
	if (refusal == WEIR_AGENT_REFUSAL_SERIAL && i >= 0 && answer->serial == prober->serial &&
		read_now_ms() >= prober->confirmed_ms + CONFIRM_MS) {
		confirm(prober);
	}
}

void weir_agents_prober_take(
	struct weir_agents_prober *prober, const uint8_t *bytes, size_t count) {
	struct weir_agents_probing *probing = prober->probing;
	struct weir_agent_answer answer;
	enum weir_agent_refusal refusal;
	int i;

	refusal = weir_agent_answer_decode(bytes, count, probing->keys, &answer);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		probing->counts->refused[refusal]++;
		return;
	}
	i = find_probe(prober, answer.challenge);
	refusal = judge(prober, &answer, i);
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		refuse(prober, &answer, i, refusal);
		return;
	}
	take(prober, &answer, i);
}

static enum weir_agent_refusal judge_tcp(
	const struct weir_agents_prober *prober, const struct weir_agent_tcp *tcp) {
	if (tcp->balancer != prober->peer->balancer) {
		return WEIR_AGENT_REFUSAL_BALANCER;
	}
	if (!prober->has_last || tcp->agent != prober->last.agent ||
		find_probe(prober, tcp->challenge) < 0 || tcp->clock_ms < prober->tcp_clock_ms) {
		return WEIR_AGENT_REFUSAL_CHALLENGE;
	}
	return WEIR_AGENT_REFUSAL_NONE;
}

void weir_agents_prober_take_tcp(
	struct weir_agents_prober *prober, const uint8_t *bytes, size_t count) {
	struct weir_agents_probing *probing = prober->probing;
	struct weir_agent_tcp tcp;
	enum weir_agent_refusal refusal = weir_agent_tcp_decode(bytes, count, probing->keys, &tcp);

	if (refusal == WEIR_AGENT_REFUSAL_NONE) {
		refusal = judge_tcp(prober, &tcp);
	}
	if (refusal != WEIR_AGENT_REFUSAL_NONE) {
		probing->counts->refused[refusal]++;
		return;
	}
	prober->tcp_clock_ms = tcp.clock_ms;
	probing->tcp(prober->owner, &tcp);
}

// --- status -------------------------------------------------------------------------------

static uint64_t age_of(const struct weir_agents_prober *prober) {
	return (uv_hrtime() - prober->answer_ns) / 1000000;
}

int weir_agents_prober_clock(const struct weir_agents_prober *prober, uint64_t max_age_ms,
	uint64_t *ret_agent, uint64_t *ret_clock_ms) {
	if (!prober->has_last || !prober->answers || age_of(prober) > max_age_ms) {
		return -EAGAIN;
	}
	*ret_agent = prober->last.agent;
	*ret_clock_ms = prober->last.clock_ms + age_of(prober);
	return 0;
}

void weir_agents_prober_status(
	const struct weir_agents_prober *prober, struct weir_agents_status *ret) {
	*ret = (struct weir_agents_status){.answers = prober->answers,
		.has_answer = prober->has_last,
		.interval_ms = interval_of(prober),
		.streak = prober->streak,
		.probes = prober->probes,
		.answered = prober->answered};
	if (prober->has_last) {
		ret->age_ms = age_of(prober);
		ret->agent = prober->last.agent;
		ret->serial = prober->serial;
	}
}

// --- create and free ----------------------------------------------------------------------

struct weir_agents_prober *weir_agents_prober_create(
	struct weir_agents_probing *probing, const struct weir_agents_peer *peer, void *owner) {
	struct weir_agents_prober *prober = calloc(1, sizeof(*prober));

	if (prober != NULL) {
		prober->probing = probing;
		prober->peer = peer;
		prober->owner = owner;
		prober->lost = true;
	}
	return prober;
}

void weir_agents_prober_free(struct weir_agents_prober *prober) {
	free(prober);
}
