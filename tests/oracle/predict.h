// SPDX-License-Identifier: BSD-3-Clause
//
// Predict: which verdicts a packet may get, from the state in which its flow may be. Each possible
// verdict is compared with the one that came; those that agree tell what the flow is from here on.
//
// Threads: one.
#pragma once

#include "flows.h"
#include "output.h"
#include "verdict.h"

enum limit {
	LIMIT_NONE,
	LIMIT_ECHO,
	LIMIT_TOO_BIG,
	LIMIT_UNREACHABLE,
	LIMIT_RESET,
	LIMIT_CHALLENGE,
	LIMITS
};

struct limit_state { // a token bucket that holds what a second allows
	uint64_t cost_ns; // UINT64_MAX: never
	uint64_t credit_ns;
	uint64_t last_ns;
	uint32_t replies; // of the burst
	bool refused; // in the burst
};

// A packet, and what became of it.
struct seen {
	struct frame frame;
	uint16_t tag; // taken off by the NIC; 0 = none
	uint16_t headroom;
	uint16_t tailroom; // behind the frame
	bool segments; // more than one
	struct view view;
	uint64_t hash; // of its flow
	struct weir_verdict verdict;
	const uint8_t *out; // what is sent, or was left
	uint32_t out_n;
};

struct wanted { // a verdict that would have been right
	uint64_t reasons;
	int backend;
	uint8_t action, choice;
};
#define WANTED_MAX 24

struct trial {
	const struct plan *plan;
	const struct flow_counts *counts; // of services with a limit
	const struct seen *seen;
	uint32_t burst; // packets in it
	uint32_t extras; // further packets that the burst made
	bool relaxed; // the flow has several packets in the burst: their order is not known
	bool certain; // the flow is in one state, at one backend, and has no other packet in the
		      // burst
	// Found by the outcomes that agree with the verdict.
	bool matched, refreshed, kept;
	uint32_t states; // next ones
	uint64_t backends;
	enum limit limit; // of a reply, or of one that was suppressed
	uint32_t all_states; // next ones of all outcomes
	struct wanted wanted[WANTED_MAX];
	uint32_t wanted_count;
};

// The outcomes of a packet of a flow in this state, of that backend (of FLOW_ABSENT: none).
void predict_flow(struct trial *trial, uint32_t state, int backend);
// Of an ICMP error about such a flow.
void predict_error(struct trial *trial, uint32_t state, int backend);
// Of a fragment that follows the first one to this backend.
void predict_later(struct trial *trial, int backend);
// Of a packet that has nothing to do with flows.
void predict_other(struct trial *trial);
// Of one that is dropped for one of these reasons.
void predict_drop(struct trial *trial, uint64_t reasons);
void predict_kernel(struct trial *trial);
