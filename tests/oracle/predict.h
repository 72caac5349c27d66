// SPDX-License-Identifier: BSD-3-Clause
//
// Predict: computes the possible verdicts of a packet from the possible states of its flow. Each
// possible verdict is compared with the actual verdict; the flow then has the states of the
// verdicts that agree.
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

struct limit_state { // a token bucket with a capacity of one second
	uint64_t cost_ns; // credit used by one reply; UINT64_MAX: replies are not permitted
	uint64_t credit_ns;
	uint64_t last_ns;
	uint32_t replies; // number of replies of the burst
	bool refused; // whether the burst had a refused reply
};

// A packet and its result.
struct seen {
	struct frame frame;
	uint16_t tag; // tag stripped by the NIC; 0 = none
	uint16_t headroom;
	uint16_t tailroom; // free bytes after the frame
	bool segments; // whether the frame has more than one segment
	struct view view;
	uint64_t hash; // hash of the packet's flow
	struct weir_verdict verdict;
	const uint8_t *out; // the sent frame or, if nothing was sent, the frame after processing
	uint32_t out_n;
};

struct wanted { // a possible verdict
	uint64_t reasons;
	int backend;
	uint8_t action, choice;
};
#define WANTED_MAX 24

struct trial {
	const struct plan *plan;
	const struct flow_counts *counts; // flow counts of services with a limit
	const struct seen *seen;
	uint32_t burst; // number of packets in the burst
	uint32_t extras; // additional packets created by the burst
	bool relaxed; // the flow has several packets in the burst, in unknown order
	bool certain; // the flow is in one state, at one backend, and has no other packet in the
		      // burst
	// Assumed backend of new flows of the client, or of its slot, if the service has affinity.
	// The prediction is repeated for each possible backend.
	int guess;
	// Results from the outcomes that agree with the verdict.
	bool matched, refreshed, kept;
	uint32_t states; // states after the packet
	uint64_t backends;
	enum limit limit; // rate limit of the reply, or of the reply that was suppressed
	uint32_t all_states; // next states of all outcomes
	struct wanted wanted[WANTED_MAX];
	uint32_t wanted_count;
};

// The outcomes of a packet whose flow is in this state, at this backend (no backend if
// FLOW_ABSENT).
void predict_flow(struct trial *trial, uint32_t state, int backend);
// The outcomes of an ICMP error about a flow in this state, at this backend.
void predict_error(struct trial *trial, uint32_t state, int backend);
// The outcomes of a fragment that follows the first fragment to this backend. choice: FLOW or
// DATAGRAM, as of the first fragment.
void predict_later(struct trial *trial, int backend, uint8_t choice);
// The outcomes of a packet that belongs to no flow.
void predict_other(struct trial *trial);
// The outcomes of a packet that is dropped for one of these reasons.
void predict_drop(struct trial *trial, uint64_t reasons);
void predict_kernel(struct trial *trial);
