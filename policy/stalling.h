// SPDX-License-Identifier: BSD-3-Clause
//
// Stalling: detects the backends of a service that accept no connections, by their half-open flows:
// flows with a SYN and no other packet. Half-open flows accumulate on a server that hangs or whose
// host drops SYNs, independent of reports about its accept queue.
//
// A backend starts to stall when in each of WEIR_STALLING_LOOKS consecutive evaluations
//
//   - it has WEIR_STALLING_TIMES as many half-open flows as expected for its new flows, and
//     at least WEIR_STALLING_LEAST more: an idle backend does not stall
//   - half-open flows have waited for half of after_ms or longer on average: a round trip is
//     shorter
//   - half-open flows are more than recently arrived within half of after_ms
//   - and the number of half-open flows has not decreased.
//
// The backend stalls until an evaluation finds less than half as many half-open flows, or a shorter
// wait; below WEIR_STALLING_LEAST flows, until the flows are only half of WEIR_STALLING_TIMES as
// many as expected. In any case the backend stalls until WEIR_STALLING_LOOKS consecutive
// evaluations find no more half-open flows than arrived within half of after_ms: then the backend
// accepts its clients, even if the clients are few.
//
// The expected number is measured on the other backends: half-open flows per new flow, of the best
// backends that together have a quarter of the new flows. In a flood of forged SYNs all backends
// have many half-open flows, so that no backend stalls; if most backends stall, the few remaining
// backends are the reference. Without new flows on other backends there is no reference, and no
// backend starts to stall. Older new flows count less, by a time constant of memory_ms, the timeout
// of half-open flows.
//
// Flows moved to a backend are half-open until their clients retransmit; the number of moved flows
// that still wait is unknown. Moved flows do not count against the backend that took them, nor in
// the expectation for a backend that already stalls: flows taken from the stalled backend do not
// raise its reference. All moved flows count in the expectation for the remaining backends, so that
// these do not seem worse than backends that took flows.
//
// Threads: pure functions over the caller's data. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STALLING_LOOKS 3u
#define WEIR_STALLING_LEAST 8.0 // half-open flows; also new flows on other backends for a reference
#define WEIR_STALLING_TIMES 4.0
#define WEIR_STALLING_MEASURE 0.25 // share of the new flows of other backends used as reference

struct weir_stalling_settings {
	uint32_t memory_ms; // time constant of new flows, above 0
	uint32_t after_ms; // a flow that has waited this long may be moved
};

struct weir_stalling_backend { // zeroed at first
	// Set by the caller before each evaluation.
	uint64_t half_open; // current number of half-open flows
	uint64_t moved; // upper bound of half-open flows moved from other backends
	uint64_t new_flows; // cumulative; a decrease counts as a restart from 0
	// Set by an evaluation.
	bool stalls;
	// Private to this module.
	bool known;
	uint32_t looks; // consecutive evaluations that contradict `stalls`
	uint64_t own; // half-open flows, without flows moved from other backends
	uint64_t first; // `own` at the first evaluation that contradicts `stalls`
	uint64_t last; // new_flows at the last evaluation
	double recent; // new flows
	double recent_ms; // time in which the recent new flows arrived
	double rate; // recent new flows per ms
	uint32_t place; // index in the order
};

struct weir_stalling_place { // entry of the order by half-open flows per new flow
	double share; // half-open flows per new flow
	double recent; // new flows
	double before; // new flows of this and all earlier entries
	uint32_t backend;
};

// Evaluate the backends of a service. order: room for count entries. passed_ms: time since the last
// evaluation. Returns the number of stalling backends. Cost: O(count log count).
uint32_t weir_stalling_look(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, struct weir_stalling_place *order,
	uint64_t passed_ms);
