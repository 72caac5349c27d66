// SPDX-License-Identifier: BSD-3-Clause
//
// Flow life: start, state changes and end of flows in the table. Calls the listener. The files in
// packet/ call the functions that take a reference; flow_insert.c, flow_expire.c and flow_parts.c
// call the functions that take a slot.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include "flow_slot.h"

// Start times are in ticks of 2^14 ns (16 us), which wrap after 19.5 hours; the sweep clears start
// times that are more than 4.9 hours old.
#define WEIR_FLOW_START_SHIFT 14

// Updates the state of a found flow and the time of its last packet, when a packet of the flow has
// arrived. event: the event that the packet causes. Some events change nothing, such as a SYN in
// state established. Returns true, without a change, if the packet starts a new flow in place of
// the old flow (a SYN in state closing, or in a joined flow). The caller then chooses a backend and
// calls weir_flow_restart.
bool weir_flow_advance(struct weir_flow_table *table, weir_flow_ref flow,
	enum weir_flow_event event, uint64_t now_ns);

// Move a found flow to the backend start->backend. end: EVICTED if the flow must leave its backend,
// or COMPLETED if a new flow replaces the old flow. With COMPLETED, the reported end depends on the
// state of the old flow, for instance REFUSED after an RST.
void weir_flow_restart(struct weir_flow_table *table, weir_flow_ref flow,
	const struct weir_flow_start *start, enum weir_flow_end end);

// Moves a flow that waits for the reply of its backend to another backend. The flow begins at the
// new backend when the client retransmits its SYN. Until then the flow is half-open and does not
// count as waiting (flow_waiting.h), and its end does not count as an error of the new backend.
void weir_flow_move(
	struct weir_flow_table *table, weir_flow_ref flow, uint16_t backend, uint64_t now_ns);

// Mark an established or young flow as challenged, until its client's next packet other than a SYN.
void weir_flow_challenge(struct weir_flow_table *table, weir_flow_ref flow, uint64_t now_ns);
bool weir_flow_is_challenged(const struct weir_flow_table *table, weir_flow_ref flow);

// Ends a found flow. end: the end to report.
void weir_flow_remove(
	struct weir_flow_table *table, weir_flow_ref flow, enum weir_flow_end end, uint64_t now_ns);

// --- slots -------------------------------------------------------------------------------------

// Begin a new flow in a slot that already has the flow's key. Before that, call weir_flow_stamp
// with start->now_ns. Does not change the count of flows, but counts a half-open flow.
void weir_flow_slot_begin(struct weir_flow_table *table, const struct weir_flow_place *place,
	const struct weir_flow_start *start);

// End the flow in a slot and report it to the listener.
void weir_flow_slot_end(struct weir_flow_table *table, const struct weir_flow_place *place,
	enum weir_flow_end end, uint64_t now_ns);

// Evict an IPv6 flow that has no destination number in this table. Releases no number. Call this if
// the table of IPv6 destinations (flow_destinations.h) has no free number for the destination of
// the flow.
void weir_flow_slot_lose(
	struct weir_flow_table *table, const struct weir_flow_place *place, uint64_t now_ns);

// Returns the end to report when a flow of this phase expires.
enum weir_flow_end weir_flow_expiry_end(unsigned int phase);
