// SPDX-License-Identifier: BSD-3-Clause
//
// Flows: the oracle's own flow table: for each flow the possible states and backends. Mostly one
// state and one backend are possible. More are possible
//   - from a flow's timeout until a second later, when the sweep must have ended it;
//   - after a burst with several packets of one flow of which one starts or ends it: lookups come
//     before insertions, so the order within a burst is not that of the packets;
//   - in a small table, in which flows may be evicted that are not in use (F3 of flow_table.h).
// The next packet of the flow shows which state and backend are right.
//
// Threads: one.
#pragma once

#include "read.h"

enum flow_state { // one bit for each state
	FLOW_ABSENT = 1u << 0,
	FLOW_SYN = 1u << 1,
	FLOW_JOINED = 1u << 2, // half-open: a flow that began without its SYN
	FLOW_WAITING = 1u << 3, // half-open, but beyond the limit of half-open flows
	FLOW_YOUNG = 1u << 4,
	FLOW_ESTABLISHED = 1u << 5,
	FLOW_CLOSING = 1u << 6, // FIN seen
	FLOW_RESET = 1u << 7, // RST of an established flow
	FLOW_ABORTED = 1u << 8, // RST of any other flow
	FLOW_UDP_SEEN = 1u << 9,
	FLOW_UDP = 1u << 10,
	FLOW_CHALLENGED =
		1u << 11, // an established or young flow whose client was challenged about a SYN
};
#define FLOW_STATES 12
// Flows that count towards the limit
#define FLOW_HALF_OPEN (FLOW_SYN | FLOW_JOINED | FLOW_UDP_SEEN)

struct flow {
	struct key key;
	uint64_t hash;
	uint32_t states;
	uint64_t backends; // one bit for each possible backend
	uint64_t last_lo, last_hi; // range of times of the last packet that refreshed the flow
	// UDP flows: time of the change of services since which all possible backends belong to
	// another service; 0 = there is a backend of the flow's service
	uint64_t stray_ns;
};

#define FLOWS_MAX (1u << 15)

struct flows {
	struct flow *flow; // [FLOWS_MAX], the first `count` are in use
	uint32_t count;
	uint32_t *slots; // [2 * FLOWS_MAX] by hash: 1 + index of a flow; 0 = free
};

void flows_init(struct flows *flows);
void flows_fini(struct flows *flows);
void flows_clear(struct flows *flows);
// The present flow of a key; if there is none, a new flow in state absent. Valid until the next
// call.
struct flow *flows_take(
	struct flows *flows, const struct plan *plan, const struct key *key, uint64_t now_ns);
// Update the states of a flow to the present time.
void flows_age(struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Whether the flow may have expired but still be in the table: then packets do not find it.
bool flow_may_be_unswept(const struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Call after a change of the plan: UDP flows end if their backends belong to another service.
void flows_recheck(struct flows *flows, const struct plan *plan, uint64_t now_ns);
// Whether a backend can no longer have a flow of this key: it was removed, or is of another
// service.
bool flow_strays(const struct plan *plan, const struct key *key, int backend);
// Call after a packet of the flow. If a UDP flow may have started at a removed backend, the sweep
// may end it.
void flow_recheck(struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Remove flows that have certainly ended.
void flows_clean(struct flows *flows, const struct plan *plan, uint64_t now_ns);

struct flow_bounds {
	uint32_t least, most;
};
struct flow_counts {
	struct flow_bounds all, half_open;
	struct flow_bounds of_backend[PLAN_BACKENDS];
	struct flow_bounds proven[PLAN_BACKENDS]; // young, established, and UDP flows
};
void flows_count(
	struct flows *flows, const struct plan *plan, uint64_t now_ns, struct flow_counts *ret);

// Whether a flow in one of these states that has just had a packet may be evicted.
bool flow_evictable(const struct plan *plan, uint32_t states);
// The state after a packet of a flow in this state; FLOW_ABSENT: a SYN restarts it. *ret_refresh:
// whether the packet refreshes the flow.
uint32_t flow_advance(uint32_t state, enum view_event event, bool *ret_refresh);
