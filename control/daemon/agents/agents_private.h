// SPDX-License-Identifier: BSD-3-Clause
//
// Private to this folder: an agent, and what the files agents*.c share.
#pragma once

#include "agents.h"
#include "agents_socket.h"
#include "wheel.h"

enum probe_state {
	PROBE_NONE, // there was none yet
	PROBE_ASKED,
	PROBE_ANSWERED,
};

struct probe {
	uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES];
	uint64_t sent_ns;
	uint8_t state; // enum probe_state
};

struct agent { // one weir-agent, of one backend or more
	struct weir_wheel_entry entry; // the next probe, or the end of the timeout, if earlier
	struct weir_agents *agents;
	struct agent *hash_next;
	struct weir_address address;
	uint16_t port;
	bool awaiting; // an answer to probe[0], until deadline_ms
	bool answers; // the last probe was answered
	bool has_last;
	bool gone; // was told, or never answered
	uint32_t members; // head of the list of its backends: id + 1, 0 = none
	uint32_t next_members; // the same list while it is configured anew
	// As its backends have it: the least intervals, the longest timeout, all wants.
	uint32_t interval_ms, inactive_interval_ms, timeout_ms, settled, wants;
	bool active; // one of them has flows
	uint64_t soon_ms; // until then it is asked as often as if one of them had flows
	uint64_t next_ms; // the next probe
	uint64_t deadline_ms;
	// Of the asking side, random: whatever other addresses its process is asked at, and whoever
	// asked it before under a number of their own, it takes each sequence.
	uint64_t balancer;
	uint64_t sequence; // of the last probe
	uint64_t steal_id; // of the last steal request
	uint64_t heard_ns; // when the last answer was taken
	uint64_t nudged_ms; // when it was probed out of turn last
	uint64_t words_ms; // as if one of its new words came each WORD_MS until then
	uint32_t heard; // serial of its word, of the process last.agent
	uint32_t streak;
	uint64_t probes, answered;
	struct probe probe[2]; // the newest first
	struct weir_agent_answer last; // that was taken
};

struct member { // one backend id
	struct agent *agent; // NULL = it has none
	uint32_t next; // in the agent's list, id + 1
	bool active;
	struct weir_agents_target target;
};

struct weir_agents {
	uv_loop_t *loop;
	struct weir_agents_events events;
	struct weir_agent_keys keys;
	struct weir_agents_counts counts;
	struct weir_agents_sockets *sockets;
	struct weir_agents_steals *steals;
	uv_timer_t timer; // for the wheel
	uint64_t started_ns;
	uint64_t random; // for the jitter: not a secret
	uint64_t fresh_ms; // when new agents were entered into the wheel; 0 = no turn since
	struct agent **buckets; // by address and port
	uint32_t bucket_mask;
	struct member *members; // by backend id
	uint32_t ids;
	struct weir_wheel wheel;
};

static inline uint64_t weir_agents_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// The member of a backend, or NULL: it has no agent.
static inline const struct member *weir_agents_member(
	const struct weir_agents *agents, uint16_t backend) {
	return backend < agents->ids && agents->members[backend].agent != NULL
		       ? &agents->members[backend]
		       : NULL;
}

// --- agents_steal.c ---

int weir_agents_steals_create(
	struct weir_agents *agents, struct weir_agents_steals **ret); // 0 or -ENOMEM
void weir_agents_steals_free(
	struct weir_agents_steals *steals); // closes with the loop; NULL is fine
// A steal answer came from the address of an agent. Calls back.
void weir_agents_steals_take(struct agent *agent, const uint8_t *bytes, size_t count);
// A datagram with this owner could not be sent. Returns false: it is no steal request.
bool weir_agents_steals_unsent(struct weir_agents_steals *steals, const void *owner);
// An agent is about to be freed: what it was asked ends without a result.
void weir_agents_steals_forget(struct weir_agents_steals *steals, const struct agent *agent);

// --- agents_answer.c ---

// A datagram came from the address of an agent. Calls back. May leave a probe in the batch of the
// sockets.
void weir_agents_take(struct agent *agent, const uint8_t *bytes, size_t count);

// --- agents_probe.c ---

// Put a probe into the batch of the sockets, and wait for its answer.
void weir_agents_probe(struct agent *agent);
// The newest probe has ended: tell all backends, and when it is probed next. Calls back.
void weir_agents_end_probe(
	struct agent *agent, enum weir_agents_outcome outcome, const char *detail);
// Enter into the wheel what comes first.
void weir_agents_schedule(struct agent *agent);
// Intervals or activity have changed: an agent that is asked more often now is asked earlier.
void weir_agents_hasten(struct agent *agent);
// It is to measure more than before: it is told soon, and asked again when it has had the time.
void weir_agents_ask_more(struct agent *agent);
uint64_t weir_agents_interval_ms(const struct agent *agent); // as it is now
// Let the timer run until the next entry of the wheel is due.
void weir_agents_arm(struct weir_agents *agents);
