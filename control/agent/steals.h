// SPDX-License-Identifier: BSD-3-Clause
//
// Steals: the steal requests that were processed, and their answers. A request is processed once.
// If the same request arrives again, its answer is sent again. An entry exists at least until the
// deadline of its request. A request that has no entry and arrives after its deadline is answered
// LATE. A deadline is at most WEIR_AGENT_STEAL_AHEAD_MS in the future. A rate limit ensures that at
// most WEIR_STEALS_MOST requests are accepted in WEIR_AGENT_STEAL_AHEAD_MS, so that no entry is
// replaced before the deadline of its request.
//
// Threads: one. Uses no clock and no socket.
#pragma once

#include <stdbool.h>

#include "agent_message.h"
#include "balancers.h"

#define WEIR_STEALS_EVERY_MS 5u // time between two requests at the maximum sustained rate
#define WEIR_STEALS_BURST 24u // maximum burst of requests
#define WEIR_STEALS_MOST (WEIR_AGENT_STEAL_AHEAD_MS / WEIR_STEALS_EVERY_MS + WEIR_STEALS_BURST)

struct weir_steals_entry {
	bool pending; // the result is pending
	uint16_t key_id; // key for the answer
	uint32_t number; // sequence number of the entry; 0 = unused
	struct weir_agent_steal_answer answer;
	struct weir_path path; // destination of the answer, while pending
};

struct weir_steals { // zeroed = no entry
	struct weir_steals_entry entry[WEIR_STEALS_MOST];
	uint32_t last; // sequence number of the newest entry
	// Token bucket, as a time. Each accepted request sets it to WEIR_STEALS_EVERY_MS after its
	// previous value, or after the current time if the previous value has passed.
	uint64_t busy_ms;
};

enum weir_steals_verdict {
	WEIR_STEALS_NEW, // process the request, and put the result into the entry
	WEIR_STEALS_KNOWN, // repeat the entry's answer
	WEIR_STEALS_PENDING, // the request is in progress: send nothing
	WEIR_STEALS_LATE, // the deadline has passed: answer with the result LATE
	WEIR_STEALS_REFUSED, // the request gets no answer; *refusal has the reason
};

// Classify an authentic request. agent: random number of this process. clock_ms: current time of
// the agent's clock, as in its answers. *ret: with NEW, KNOWN and PENDING, the entry of the
// request, valid until the next call. *refusal: with REFUSED, the reason: AGENT (the request is for
// another process), FLOW (a known request with another flow), VALUE (the deadline is too far in
// the future) or RATE (too many requests).
enum weir_steals_verdict weir_steals_take(struct weir_steals *steals,
	const struct weir_agent_steal *steal, uint64_t agent, uint64_t clock_ms,
	struct weir_steals_entry **ret, enum weir_agent_refusal *refusal);

// Returns the pending entry with this sequence number, or NULL.
struct weir_steals_entry *weir_steals_pending(struct weir_steals *steals, uint32_t number);
