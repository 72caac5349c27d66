// SPDX-License-Identifier: BSD-3-Clause
//
// Flow: types that describe one flow, for callers and the files of the flow table.
//
// Threads: flows belong to the table of one worker.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "packet_facts.h"
#include "policy.h"

// The key of a flow. Addresses and ports are in network order, as in the packet. An IPv4 address is
// in the first 4 bytes; the remaining bytes are 0.
struct weir_flow_key {
	uint8_t source[16];
	uint8_t destination[16];
	uint16_t source_port;
	uint16_t destination_port;
	uint8_t family; // 4 or 6
	uint8_t protocol;
};

// In shared memory, flows are divided into WEIR_FLOW_PARTS parts, by their flow hash and the secret
// of the flow table, or by their RSS hash (rss_hash.h). Workers hand over whole parts when load is
// rebalanced (flow_parts.h).
#define WEIR_FLOW_PART_BITS 10
#define WEIR_FLOW_PARTS (1u << WEIR_FLOW_PART_BITS)

// The reasons why a flow ended.
enum weir_flow_end {
	WEIR_FLOW_END_COMPLETED, // a FIN was seen; then the closing timeout passed or a SYN arrived
	// An RST was seen, but no FIN and no data after the RST; then a timeout passed, or a SYN
	// arrived.
	WEIR_FLOW_END_REFUSED,
	// No packet arrived for the timeout of the flow's state, or a SYN replaced a joined flow.
	WEIR_FLOW_END_TIMED_OUT,
	// A flow with another key has replaced the flow, the flow was moved, the flow no longer has
	// a service or a backend, or an operator has deleted the flow.
	WEIR_FLOW_END_EVICTED,
};

// A reference to a flow in a table. It is valid until the flow is removed, and at most until the
// next insertion or sweep, or the next slice of release or adopt (flow_parts.h). A negative value
// means that no flow was found.
typedef int64_t weir_flow_ref;

// How a new flow begins. A flow that begins with FIN or RST counts as finished from the start,
// without a call of `finished`.
struct weir_flow_start {
	uint64_t now_ns;
	enum weir_flow_event event;
	uint16_t backend;
	// The first packet is a TCP packet from the middle of a flow, not a SYN. In this case,
	// `event` must be SYN. The flow is half-open, but its end does not count as an error.
	bool joined;
	bool measured; // store the start time, to measure the service time
	// Used only by insert: weir_flow_absent has returned true for this key, and no flow with
	// this key was inserted since.
	bool absent;
	uint32_t buckets[2]; // valid if absent: the buckets that weir_flow_absent has written
};

#define WEIR_OUTCOME_KNOWN (-1) // the flow had already finished

// Callbacks of the flow table. `belongs` is a check; the other callbacks report state changes and
// ends of flows (F5 of flow_table.h). The table calls them from within advance, insert, restart,
// move, remove, adopt and sweep, so they must be short. half_open: the open flow was never
// established before its end; false in `ended` if the flow had finished before.
struct weir_flow_listener {
	// A half-open flow has become established or young: a packet other than a SYN, or a second
	// datagram, has arrived. Not called for a flow that began as established, or that this
	// packet finishes. answered: the flow was in phase SYN seen; the packet then shows that the
	// backend has answered the SYN. False for a flow in phase WAITING, because the timeout of a
	// WAITING flow is not reported as UNANSWERED either.
	void (*established)(void *context, uint16_t backend, bool answered);
	// A FIN or RST has finished the flow, which was open. Called before `ended`. Called again
	// for the same flow only after `resumed`. service_ns: for a flow that completed, the time
	// since the first packet of the flow; 0 = not measured.
	void (*finished)(void *context, uint16_t backend, enum weir_outcome outcome,
		uint64_t service_ns, bool half_open);
	// The flow had not finished: a packet after an RST shows that the RST was forged. The flow
	// is now established or young, and can finish again.
	void (*resumed)(void *context, uint16_t backend);
	// The flow was removed from the table, restarted or moved. outcome: WEIR_OUTCOME_KNOWN if
	// the flow had finished before, otherwise an enum weir_outcome. service_ns: for outcome
	// COMPLETED, the time from the first to the last packet of the flow; 0 = not measured.
	// idle_ns: the time since the last packet, if service_ns is not 0.
	void (*ended)(void *context, uint16_t backend, enum weir_flow_end end, int outcome,
		uint64_t service_ns, uint64_t idle_ns, bool half_open);
	// Returns false if the table must end the flow (EVICTED). A UDP flow must end if its
	// address and port no longer belong to the service of its backend. A TCP flow must end if
	// its bind was removed and the drain of the bind has ended. Called from within sweep
	// (after weir_flow_recheck) and adopt. NULL = no flow must be ended.
	bool (*belongs)(void *context, const struct weir_flow_key *key, uint16_t backend);
	void *context;
};
