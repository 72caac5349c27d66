// SPDX-License-Identifier: BSD-3-Clause
//
// Balancers: who probes this agent, what each wants to know, and whether it has heard the agent's
// word. A balancer is known from its first authentic probe that names this process of the agent
// until it is silent for WEIR_AGENT_SILENT_PROBES of its own intervals. Any other probe may be a
// recorded one of a balancer that has ended: it is answered, and nothing of it is kept.
//
// Threads: one. Knows no clock and no socket.
#pragma once

#include <stdbool.h>
#include <sys/socket.h>

#include "agent_message.h"
#include "replay.h"

#define WEIR_BALANCERS_MAX WEIR_REPLAY_SENDERS

struct weir_path { // where a datagram came from, and so where the answer goes
	struct sockaddr_storage peer;
	socklen_t peer_bytes;
	struct sockaddr_storage own; // our address, without port; the answer's source
};

struct weir_balancer {
	uint64_t id; // 0 = unused entry
	uint16_t key_id; // of its newest probe, as all below
	uint8_t challenge[WEIR_AGENT_CHALLENGE_BYTES];
	struct weir_path path;
	uint32_t wants;
	uint32_t interval_ms;
	uint64_t seen_ms;
	uint32_t heard; // serial of our word that it has taken
	uint64_t tell_ms; // when to tell it the word again
	uint32_t wait_ms; // from then to the next time
};

struct weir_balancers {
	struct weir_replay replay;
	struct weir_balancer entry[WEIR_BALANCERS_MAX];
	struct weir_balancer stranger; // of the last probe that did not name this process
};

// Take a probe. agent: our own number. Returns the balancer to answer, valid until the next call,
// or NULL and why it is refused in *refusal (REPLAY or FULL).
struct weir_balancer *weir_balancers_take(struct weir_balancers *balancers,
	const struct weir_agent_probe *probe, uint64_t agent, const struct weir_path *path,
	uint64_t now_ms, enum weir_agent_refusal *refusal);

// Forget those that are silent. Returns how many are left.
uint32_t weir_balancers_expire(struct weir_balancers *balancers, uint64_t now_ms);

uint32_t weir_balancers_wants(const struct weir_balancers *balancers); // of any of them
// How many have not heard a word yet.
uint32_t weir_balancers_unheard(const struct weir_balancers *balancers, uint32_t serial);

// There is a new word: everybody is to be told now.
void weir_balancers_new_word(struct weir_balancers *balancers, uint64_t now_ms);

// The next balancer that is to be told the word now, or NULL. It is told again after 50 ms, then
// 100, 200, 400 and each 500 ms, until it has heard it.
struct weir_balancer *weir_balancers_next_to_tell(
	struct weir_balancers *balancers, uint32_t serial, uint64_t now_ms);
