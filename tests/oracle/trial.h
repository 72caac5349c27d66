// SPDX-License-Identifier: BSD-3-Clause
//
// Trial: a packet, its actual verdict, and the outcomes that are possible for the packet. Each
// outcome is compared with the verdict; the flow then has the states of the outcomes that agree.
//
// Threads: one.
#pragma once

#include "flows.h"
#include "output.h"
#include "verdict.h"

#define NOBODY (-1) // no backend

enum limit {
	LIMIT_NONE,
	LIMIT_ECHO,
	LIMIT_TOO_BIG,
	LIMIT_UNREACHABLE,
	LIMIT_RESET,
	LIMIT_CHALLENGE,
	LIMITS
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

// The state of a flow after a possible outcome.
struct next {
	uint32_t states; // possible states
	int backend;
	uint8_t choice; // reason for this outcome of the packet
	bool refresh;
};

// Adds a possible outcome: a verdict, and the flow after it.
void trial_outcome(struct trial *trial, struct wanted wanted, const struct next *next);
// The packet is dropped after next->backend was chosen, or (backend NOBODY) before a backend was
// chosen. reasons: the possible drop reasons, as REASON() of read.h.
void trial_dropped(struct trial *trial, uint64_t reasons, int backend, const struct next *next);
// The packet goes to the kernel.
void trial_kernel(struct trial *trial, const struct next *next);
// The balancer replies to the packet within a rate limit, or drops it because of its source
// address, a group MAC address, the rate limit, or too little headroom for the reply. headroom: in
// bytes, of a packet without a stripped tag. ended: the state of the flow after a reply.
void trial_answered(struct trial *trial, enum limit limit, uint64_t reasons, int headroom,
	int backend, const struct next *next, const struct next *ended);
// No service has the destination of the packet, so the packet starts no flow. former: the flow that
// remains.
void trial_closed_port(struct trial *trial, const struct next *former);

// Returns whether the source address of the packet is a VIP.
bool trial_is_from_vip(const struct trial *trial);
// Returns the headroom that an ICMP error about the packet needs, in bytes.
int trial_error_bytes(const struct view *view);
