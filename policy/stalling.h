// SPDX-License-Identifier: BSD-3-Clause
//
// Stalling: detects the backends of a service that accept no connections, by their half-open flows:
// flows with a SYN and nothing else. They accumulate on a server that hangs or whose host drops
// SYNs, independent of reports about its accept queue.
//
// A backend starts to stall when in each of WEIR_STALLING_LOOKS looks in a row
//
//   - it has WEIR_STALLING_TIMES as many half-open flows as expected for its new flows, and
//     WEIR_STALLING_LEAST more: an idle backend does not stall
//   - they have waited for half of after_ms on average, or longer: a round trip is shorter
//   - they are more than recently arrived within that time
//   - and their number has not decreased.
//
// It stalls until a look finds less than half of these flows, or that they wait for less; below
// WEIR_STALLING_LEAST flows, until there are only half of WEIR_STALLING_TIMES as many as expected.
// In any case until WEIR_STALLING_LOOKS looks in a row find no more than arrived within half of
// after_ms: then it accepts its clients, even if they are few.
//
// The expectation is measured on the other backends: half-open flows per new flow, of the best
// ones, down to a quarter of the new flows. In a flood of forged SYNs all backends have many, so
// that none stalls; where most backends stall, the few others are the reference. Without new flows
// on others there is no reference, and no backend starts to stall. Older new flows count less, by a
// time constant of memory_ms, the timeout of half-open flows.
//
// Flows moved to a backend are half-open there until their clients retransmit, and the number still
// waiting is unknown. They do not count against that backend, nor in the expectation for a backend
// that already stalls, so that others do not look worse for the flows taken from it. They all count
// in the expectation for the other backends, so that those do not look worse than backends that
// took flows.
//
// Threads: pure functions over the caller's data. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STALLING_LOOKS 3u
#define WEIR_STALLING_LEAST 8.0 // flows; also the new flows on the others that a reference needs
#define WEIR_STALLING_TIMES 4.0
#define WEIR_STALLING_MEASURE 0.25 // share of the others' new flows used as reference

struct weir_stalling_settings {
	uint32_t memory_ms; // above 0
	uint32_t after_ms; // a flow that has waited this long may be moved
};

struct weir_stalling_backend { // zeroed at first
	// Set by the caller before each look.
	uint64_t half_open; // now
	uint64_t moved; // upper bound of those that came from others, and wait for their clients
	uint64_t new_flows; // cumulative; a decrease counts as a restart from 0
	// Set by a look.
	bool stalls;
	// Private to this module.
	bool known;
	uint32_t looks; // consecutive looks that contradict `stalls`
	uint64_t own; // half-open flows, without those that came from others
	uint64_t first; // the same at the first of these looks
	uint64_t last; // new_flows at the last look
	double recent; // new flows
	double recent_ms; // time in which they arrived
	double rate; // recent new flows per ms
	uint32_t place; // in the order
};

struct weir_stalling_place { // of the order by half-open flows per new flow
	double share; // half-open flows per new flow
	double recent; // new flows
	double before; // new flows of this place and all before it
	uint32_t backend;
};

// Evaluate the backends of a service. order: room for count places. passed_ms: since the last look.
// Returns the number of stalling ones. Cost: O(count log count).
uint32_t weir_stalling_look(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, struct weir_stalling_place *order,
	uint64_t passed_ms);
