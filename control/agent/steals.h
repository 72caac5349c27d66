// SPDX-License-Identifier: BSD-3-Clause
//
// Steals: which requests for flows were looked at, and what was answered. A request is looked at
// once: the same one again gets the same answer. It is remembered until its deadline is over, after
// which nothing would be done for it: at most WEIR_STEALS_MOST are looked at in that time.
//
// Threads: one. Knows no clock and no socket.
#pragma once

#include <stdbool.h>

#include "agent_message.h"
#include "balancers.h"

#define WEIR_STEALS_EVERY_MS 5u // in the long run one request is looked at in so long
#define WEIR_STEALS_BURST 24u // and so many at once
#define WEIR_STEALS_MOST (WEIR_AGENT_STEAL_AHEAD_MS / WEIR_STEALS_EVERY_MS + WEIR_STEALS_BURST)

struct weir_steals_entry {
	bool pending; // the answer has no result yet
	uint16_t key_id; // to answer under
	uint32_t number; // of the entry since the start; 0 = unused
	struct weir_agent_steal_answer answer;
	struct weir_path path; // where the answer goes, while pending
};

struct weir_steals { // zeroed = nothing was looked at
	struct weir_steals_entry entry[WEIR_STEALS_MOST];
	uint32_t last; // number of the newest entry
	uint64_t busy_ms; // as if one request came each EVERY_MS until then
};

enum weir_steals_verdict {
	WEIR_STEALS_NEW, // look at it, and put the result into the entry
	WEIR_STEALS_KNOWN, // give the answer of the entry again
	WEIR_STEALS_PENDING, // it is being looked at: say nothing more
	WEIR_STEALS_LATE, // answer so
	WEIR_STEALS_REFUSED, // see *refusal
};

// Take a request that was found authentic. agent: our own number. clock_ms: the clock of our
// answers, which never goes back. *ret: with NEW, KNOWN and PENDING, valid until the next call.
// *refusal: with REFUSED: AGENT, VALUE (its deadline is too far ahead), FLOW, RATE.
enum weir_steals_verdict weir_steals_take(struct weir_steals *steals,
	const struct weir_agent_steal *steal, uint64_t agent, uint64_t clock_ms,
	struct weir_steals_entry **ret, enum weir_agent_refusal *refusal);

// The entry with a number that waits for its result, or NULL.
struct weir_steals_entry *weir_steals_pending(struct weir_steals *steals, uint32_t number);
