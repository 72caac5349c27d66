// SPDX-License-Identifier: BSD-3-Clause
//
// Private to this folder: an agent, and the functions shared by the files agents*.c.
#pragma once

#include "agents.h"
#include "agents_socket.h"
#include "wheel.h"

enum probe_state {
	PROBE_NONE, // not sent yet
	PROBE_SENT,
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
	bool awaiting; // waiting for the answer to probe[0], until deadline_ms
	bool answers; // the last probe was answered
	bool has_last;
	bool lost; // the event was reported, or it never answered
	uint32_t members; // head of the list of its backends: id + 1, 0 = none
	uint32_t next_members; // the same list of the next configuration
	// Combined from its backends: the shortest intervals, the longest timeout, all wants.
	uint32_t interval_ms, inactive_interval_ms, timeout_ms, settled, wants;
	bool active; // one of them has flows
	uint64_t soon_ms; // until then it is probed as if one of them had flows
	uint64_t next_ms; // the next probe
	uint64_t deadline_ms;
	// Random number of this prober, per address: the agent tracks the sequence of each number
	// separately, so neither probes at its other addresses nor those of an earlier process
	// interfere.
	uint64_t balancer;
	uint64_t sequence; // of the last probe
	uint64_t steal_id; // of the last steal request
	uint64_t answer_ns; // when the last answer was accepted
	uint64_t confirmed_ms; // when the last extra probe was sent
	uint64_t words_ms; // rate limit of new words: each adds WORD_MS to it
	uint32_t serial; // of its word, of the process last.agent
	uint32_t streak;
	uint64_t probes, answered;
	struct probe probe[2]; // newest first
	struct weir_agent_answer last; // last accepted answer
};

struct member { // one backend id
	struct agent *agent; // NULL = none
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
	uint64_t random; // for jitter: not secret
	uint64_t fresh_ms; // when new agents were added to the wheel; 0 = none since the last turn
	struct agent **buckets; // by address and port
	uint32_t bucket_mask;
	struct member *members; // by backend id
	uint32_t ids;
	struct weir_wheel wheel;
};

static inline uint64_t weir_agents_now_ms(void) {
	return uv_hrtime() / 1000000;
}

// The member of a backend; NULL if it has no agent.
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
	struct weir_agents_steals *steals); // closes with the loop; NULL is allowed
// Process a steal answer from the address of an agent. Calls back.
void weir_agents_steals_take(struct agent *agent, const uint8_t *bytes, size_t count);
// A datagram with this owner could not be sent. Returns false if it is not a steal request.
bool weir_agents_steals_unsent(struct weir_agents_steals *steals, const void *owner);
// An agent is about to be freed: its requests end without a result.
void weir_agents_steals_cancel(struct weir_agents_steals *steals, const struct agent *agent);

// --- agents_answer.c ---

// Process a datagram from the address of an agent. Calls back. May add a probe to the batch of the
// sockets.
void weir_agents_take(struct agent *agent, const uint8_t *bytes, size_t count);

// --- agents_probe.c ---

// Add a probe to the batch of the sockets, and wait for its answer.
void weir_agents_probe(struct agent *agent);
// The newest probe has ended: report to all backends, and adjust the time of the next one. Calls
// back.
void weir_agents_end_probe(
	struct agent *agent, enum weir_agents_outcome outcome, const char *detail);
// Set the agent's wheel entry to its next event.
void weir_agents_schedule(struct agent *agent);
// Intervals or activity have changed: if the interval is shorter now, probe earlier.
void weir_agents_hasten(struct agent *agent);
// Additional fields are wanted: request them soon, and probe again when the agent has had time to
// measure them.
void weir_agents_measure_more(struct agent *agent);
uint64_t weir_agents_interval_ms(const struct agent *agent); // current
// Start the timer for the next due entry of the wheel.
void weir_agents_arm(struct weir_agents *agents);
