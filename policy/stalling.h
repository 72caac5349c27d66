// SPDX-License-Identifier: BSD-3-Clause
//
// Stalling: which backends of a service do not let their clients in, as their half-open flows tell:
// flows that have sent a SYN and nothing else. They pile up at a server that hangs or whose host
// drops SYNs, whatever is reported of its accept queue.
//
// A backend stalls when each of WEIR_STALLING_LOOKS looks in a row finds that
//
//   - it has WEIR_STALLING_TIMES as many half-open flows as its new flows let expect, and
//     WEIR_STALLING_LEAST more: an idle backend does not stall
//   - they have waited for half of after_ms on average, or longer: a round trip is shorter
//   - they are more than came within that time of late
//   - and they have not become fewer.
//
// It stalls until a look finds less than half of these flows, or that they wait for less; of fewer
// than WEIR_STALLING_LEAST, until there are only half of WEIR_STALLING_TIMES as many as expected.
// In any case until WEIR_STALLING_LOOKS looks in a row find no more than came within half of
// after_ms: it lets its clients in, however few they are.
//
// What is expected is measured at the other backends: half-open flows for each new flow, at those
// that do best, down to a quarter of the new flows. In a flood of forged SYNs all backends have
// many, so that none stalls; where most backends stall, the few that do not are the measure.
// Without new flows at others there is none, and nobody begins to stall. New flows count less the
// older they are, by a time constant of memory_ms, the timeout of half-open flows.
//
// Flows that were moved to a backend are half-open there until their clients send again, and nobody
// knows how many still are. None counts against that backend, nor in what is expected of one that
// stalls already, so that others look no worse for what they took from it. In what is expected of
// one that does not stall all count, so that it does not look worse than others that took flows.
//
// Threads: pure functions over what the caller owns. No clock (time is an argument), no allocation.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STALLING_LOOKS 3u
#define WEIR_STALLING_LEAST 8.0 // flows; at the others as many new ones make a measure
#define WEIR_STALLING_TIMES 4.0
#define WEIR_STALLING_MEASURE 0.25 // share of the others' new flows

struct weir_stalling_settings {
	uint32_t memory_ms; // above 0
	uint32_t after_ms; // a flow that has waited for so long may be moved
};

struct weir_stalling_backend { // zeroed at first
	// Set by the caller before each look.
	uint64_t half_open; // now
	uint64_t moved; // at most so many of them came from others, and wait for their clients
	uint64_t new_flows; // since any time; smaller than before: counted anew
	// Told by a look.
	bool stalls;
	// Of this module alone.
	bool known;
	uint32_t looks; // in a row that speak for the opposite of `stalls`
	uint64_t own; // half-open flows, without those that came from others
	uint64_t first; // the same at the first of these looks
	uint64_t last; // new_flows at the last look
	double recent; // new flows
	double recent_ms; // time that they came in
	double rate; // new flows in a ms, of late
	uint32_t place; // in the order
};

struct weir_stalling_place { // of the order by half-open flows for each new flow
	double share; // half-open flows for each new flow
	double recent; // new flows
	double before; // new flows of this place and all before it
	uint32_t backend;
};

// Look at the backends of a service. order: room for count places. passed_ms: since the last look.
// Returns how many stall. Cost: O(count log count).
uint32_t weir_stalling_look(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, struct weir_stalling_place *order,
	uint64_t passed_ms);
