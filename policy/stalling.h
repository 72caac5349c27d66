// SPDX-License-Identifier: BSD-3-Clause
//
// Stalling: detects the backends of a service that accept no connections. Such a backend has many
// half-open flows, that is, flows with a SYN and no other packet. Half-open flows accumulate if a
// server hangs or its host drops SYNs. The backend need not report the length of its accept queue.
//
// A backend starts to stall when WEIR_STALLING_LOOKS evaluations in a row find all of these:
//
//   - The backend has at least WEIR_STALLING_TIMES * e + WEIR_STALLING_LEAST half-open flows, where
//     e is the number expected from its number of new flows. Therefore an idle backend does not
//     stall.
//   - On average, flows have been half-open for at least half of after_ms, which is longer than a
//     round trip.
//   - There are more half-open flows than new flows that arrive within half of after_ms.
//   - The number of half-open flows is not lower than in the first of these evaluations.
//
// The backend stalls until one of these happens:
//
//   - An evaluation finds fewer half-open flows than half of the limit in the first condition
//     above, or a shorter average time than in the second condition. If fewer than
//     WEIR_STALLING_LEAST flows are half-open, the backend stalls until their number is at most
//     half of WEIR_STALLING_TIMES * e.
//   - WEIR_STALLING_LOOKS evaluations in a row find no more half-open flows than arrive within half
//     of after_ms. Then the backend accepts connections again, even if it has few clients.
//
// The expected number is computed from the other backends. The reference is the group of backends
// with the fewest half-open flows per new flow; together they have a quarter of the new flows. In a
// flood of forged SYNs all backends have many half-open flows; the expected number is then high,
// and no backend stalls. If most backends stall, the few remaining backends are the reference. If
// the other backends have fewer than WEIR_STALLING_LEAST new flows, there is no reference, and the
// backend does not start to stall. Older new flows count less; the time constant is memory_ms, the
// timeout of half-open flows.
//
// Flows that are moved to a backend stay half-open until their clients retransmit. It is not
// known how many of these clients still wait. Therefore moved flows do not count as half-open
// flows of the evaluated backend. The number e of a stalling backend does not include moved
// flows: its own flows, moved to other backends, would raise e. The number e of any other
// backend includes moved flows: otherwise the backend could seem worse than backends to which
// flows were moved.
//
// Threads: any; the caller owns all data. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STALLING_LOOKS 3u
// Minimum number of half-open flows, and minimum number of new flows on the other backends.
#define WEIR_STALLING_LEAST 8.0
#define WEIR_STALLING_TIMES 4.0
#define WEIR_STALLING_MEASURE 0.25 // share of the new flows that the reference backends have

struct weir_stalling_settings {
	uint32_t memory_ms; // time constant of the decay of new flows, above 0
	uint32_t after_ms; // a flow that has been half-open for this time can be moved
};

struct weir_stalling_backend { // zeroed at first
	// Set by the caller before each evaluation.
	uint64_t half_open; // current number of half-open flows
	// Upper limit of the number of half-open flows that were moved from other backends.
	uint64_t moved;
	uint64_t new_flows; // cumulative; a decrease restarts the evaluation
	// Set by an evaluation.
	bool stalls;
	// Private to this module.
	bool known;
	uint32_t looks; // number of consecutive evaluations that contradict `stalls`
	uint64_t own; // number of half-open flows, without flows moved from other backends
	uint64_t first; // `own` at the first evaluation that contradicts `stalls`
	uint64_t last; // new_flows at the last evaluation
	double recent; // sum of new flows, which decays with memory_ms
	// Time in which the new flows of `recent` arrived, in ms; decays with memory_ms.
	double recent_ms;
	double rate; // new flows per ms, averaged over about half of after_ms
	uint32_t place; // index of the backend in `order`
};

struct weir_stalling_place { // a backend, in an array sorted by half-open flows per new flow
	double share; // half-open flows per new flow
	double recent; // new flows
	double before; // new flows of this and all earlier entries
	uint32_t backend;
};

// Evaluate the backends of a service. order: memory for count entries. passed_ms: time since the
// last evaluation. Returns the number of stalling backends. Cost: O(count log count).
uint32_t weir_stalling_look(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, struct weir_stalling_place *order,
	uint64_t passed_ms);
