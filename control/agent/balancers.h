// SPDX-License-Identifier: BSD-3-Clause
//
// Balancers: lists the balancers that probe this agent. An entry contains the fields that the
// balancer requests, and shows whether the balancer has acknowledged the announced state
// (WEIR_HEALTH_WORD_*). The first authentic probe that is addressed to this agent process creates
// an entry. An entry is removed when its balancer has sent no probe for WEIR_AGENT_SILENT_PROBES
// probe intervals. A probe that is addressed to another process is answered, but creates no entry,
// because it may be a replay of an old probe.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "agent_message.h"
#include "replay.h"

#define WEIR_BALANCERS_MAX WEIR_REPLAY_SENDERS

struct weir_path { // addresses of a datagram; the answer is sent from `own` to `peer`
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	struct sockaddr_storage own; // local address, without port; source of the answer
};

struct weir_balancer {
	uint64_t id; // 0 = unused entry
	// The fields from here to seen_ms are from the newest probe.
	uint16_t key_id;
	uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES];
	struct weir_path path;
	uint32_t wants;
	uint32_t interval_ms;
	uint64_t seen_ms;
	uint32_t acknowledged; // serial of the announced state that the balancer has acknowledged
	uint64_t notify_ms; // when to send the state again
	uint32_t wait_ms; // time from notify_ms to the repetition after it
};

struct weir_balancers {
	struct weir_replay replay;
	struct weir_balancer entry[WEIR_BALANCERS_MAX];
	// Sender of the last probe that was not addressed to this process; valid until the next
	// probe.
	struct weir_balancer stranger;
};

// Process a probe. agent: the random number that identifies this process. Returns the balancer to
// answer, which is valid until the next call. Returns NULL if the probe is refused; *refusal is
// then the reason (REPLAY or FULL).
struct weir_balancer *weir_balancers_take(struct weir_balancers *balancers,
	const struct weir_agent_probe *probe, uint64_t agent, const struct weir_path *path,
	uint64_t now_ms, enum weir_agent_refusal *refusal);

// Remove balancers that no longer send probes. Returns the number of remaining balancers.
uint32_t weir_balancers_expire(struct weir_balancers *balancers, uint64_t now_ms);

uint32_t weir_balancers_count(const struct weir_balancers *balancers);
// Returns the union of the fields that the balancers request.
uint32_t weir_balancers_wants(const struct weir_balancers *balancers);
// Returns the number of balancers that have not acknowledged the announced state with this serial.
uint32_t weir_balancers_unacknowledged(const struct weir_balancers *balancers, uint32_t serial);

// Schedule an immediate notice to every balancer. Call this function when the announced state has
// changed.
void weir_balancers_announce(struct weir_balancers *balancers, uint64_t now_ms);

// Returns the next balancer to which a notice must be sent now, or NULL. The notice to a balancer
// is repeated after 50, 100, 200 and 400 ms, and then every 500 ms, until the balancer acknowledges
// it.
struct weir_balancer *weir_balancers_next_to_notify(
	struct weir_balancers *balancers, uint32_t serial, uint64_t now_ms);
