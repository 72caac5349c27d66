// SPDX-License-Identifier: BSD-3-Clause
//
// Balancers: which balancers probe this agent, the fields each one requests, and whether each one
// has acknowledged the announced state (WEIR_HEALTH_WORD_*). An entry exists from the first
// authentic probe addressed to this agent process until the balancer is silent for
// WEIR_AGENT_SILENT_PROBES of its own intervals. Any other probe may be a replay from a balancer
// that has ended: it is answered, but leaves no state.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "agent_message.h"
#include "replay.h"

#define WEIR_BALANCERS_MAX WEIR_REPLAY_SENDERS

struct weir_path { // where a datagram came from; answers take the same path back
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	struct sockaddr_storage own; // our address, without port; the answer's source
};

struct weir_balancer {
	uint64_t id; // 0 = unused entry
	uint16_t key_id; // of its newest probe, as all fields below
	uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES];
	struct weir_path path;
	uint32_t wants;
	uint32_t interval_ms;
	uint64_t seen_ms;
	uint32_t heard; // serial of the announced state that it has acknowledged
	uint64_t notify_ms; // when to send the state again
	uint32_t wait_ms; // delay until the repetition after that
};

struct weir_balancers {
	struct weir_replay replay;
	struct weir_balancer entry[WEIR_BALANCERS_MAX];
	struct weir_balancer stranger; // of the last probe that was not addressed to this process
};

// Process a probe. agent: our own number. Returns the balancer to answer, valid until the next
// call, or NULL with the refusal in *refusal (REPLAY or FULL).
struct weir_balancer *weir_balancers_take(struct weir_balancers *balancers,
	const struct weir_agent_probe *probe, uint64_t agent, const struct weir_path *path,
	uint64_t now_ms, enum weir_agent_refusal *refusal);

// Remove balancers that are silent. Returns how many remain.
uint32_t weir_balancers_expire(struct weir_balancers *balancers, uint64_t now_ms);

uint32_t weir_balancers_count(const struct weir_balancers *balancers);
uint32_t weir_balancers_wants(const struct weir_balancers *balancers); // union over all balancers
// How many have not acknowledged this serial.
uint32_t weir_balancers_unacknowledged(const struct weir_balancers *balancers, uint32_t serial);

// The announced state changed: schedule a notice to every balancer now.
void weir_balancers_announce(struct weir_balancers *balancers, uint64_t now_ms);

// The next balancer whose notice is due now, or NULL. A notice is repeated after 50 ms, then 100,
// 200, 400 and every 500 ms until it is acknowledged.
struct weir_balancer *weir_balancers_next_to_notify(
	struct weir_balancers *balancers, uint32_t serial, uint64_t now_ms);
