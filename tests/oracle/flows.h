// SPDX-License-Identifier: BSD-3-Clause
//
// Flows: the oracle's own flow table. It has the possible states and backends of each flow. In
// most cases only one state and one backend are possible. Several are possible
//   - in the second after the timeout of a flow: it is unknown whether the sweep has already
//     removed the flow;
//   - after a burst with several packets of a flow, one of which starts or ends the flow: the
//     pipeline looks up all flows of a burst before it inserts new ones, so it does not handle the
//     packets strictly in order;
//   - in a small table, in which flows that are not in use may be evicted (F3 of flow_table.h).
// The verdict on the next packet of the flow shows which state and backend it has.
//
// Threads: one.
#pragma once

#include "read.h"

enum flow_state { // one bit for each state
	FLOW_ABSENT = 1u << 0,
	FLOW_SYN = 1u << 1,
	FLOW_JOINED = 1u << 2, // half-open: a flow that began without a SYN
	// Half-open, but does not count towards the limit of half-open flows
	FLOW_WAITING = 1u << 3,
	FLOW_YOUNG = 1u << 4,
	FLOW_ESTABLISHED = 1u << 5,
	FLOW_CLOSING = 1u << 6, // FIN seen
	FLOW_RESET = 1u << 7, // RST of an established flow
	FLOW_ABORTED = 1u << 8, // RST of any other flow
	FLOW_UDP_SEEN = 1u << 9,
	FLOW_UDP = 1u << 10,
	FLOW_CHALLENGED = 1u << 11, // an established or young flow whose client got a challenge ACK
};
#define FLOW_STATES 12
// States that count towards the limit of half-open flows
#define FLOW_HALF_OPEN (FLOW_SYN | FLOW_JOINED | FLOW_UDP_SEEN)

struct flow {
	struct key key;
	uint64_t hash;
	uint32_t states;
	uint64_t backends; // one bit for each possible backend
	// Earliest and latest possible time of the last packet that refreshed the flow
	uint64_t last_lo, last_hi;
	// UDP flows: time of the change of services after which none of the possible backends can
	// have the flow; 0 = there was no such change
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
// Returns the flow of a key; if there is none, creates it in the state FLOW_ABSENT. Valid until the
// next call.
struct flow *flows_take(
	struct flows *flows, const struct plan *plan, const struct key *key, uint64_t now_ns);
// Update the states of a flow to the time now_ns.
void flows_age(struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Returns whether it is possible that the flow has expired and is still in the table. Packets do
// not find such a flow.
bool flow_may_be_unswept(const struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Call after a change of the plan: UDP flows end if their backends belong to another service.
void flows_recheck(struct flows *flows, const struct plan *plan, uint64_t now_ns);
// Returns whether a backend can no longer have a UDP flow of this key, because it was removed or
// belongs to another service, or because the service has no UDP flows.
bool flow_strays(const struct plan *plan, const struct key *key, int backend);
// Call after a packet of the flow. If a UDP flow may have started at a removed backend, the sweep
// may remove the flow.
void flow_recheck(struct flow *flow, const struct plan *plan, uint64_t now_ns);
// Remove flows that must have ended.
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

// Returns whether a flow in one of these states can be evicted although it has just had a packet.
bool flow_evictable(const struct plan *plan, uint32_t states);
// Returns the state of a flow after a packet; FLOW_ABSENT: a SYN restarts the flow. *ret_refresh:
// whether the packet refreshes the flow.
uint32_t flow_advance(uint32_t state, enum view_event event, bool *ret_refresh);
