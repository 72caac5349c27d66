// SPDX-License-Identifier: BSD-3-Clause
//
// Signal: control's data about a backend for the policy of its service, in one word of 64 bits, so
// that it is read and written atomically. The word contains its kind: while a service changes its
// policy, a worker may read a word meant for the other policy.
//
//   cost     predicted cost of a flow, ns; 0 = unknown
//   errors   errors reported by the backend, as a number of active flows per worker
//   probe    requests in progress, latency, and the time of the backend's report
//
// Threads: control writes, workers read; relaxed accesses of whole words.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_SIGNAL_SHIFT 62 // the kind is in the bits above
#define WEIR_SIGNAL_COST UINT64_C(0)
#define WEIR_SIGNAL_PROBE UINT64_C(1)
#define WEIR_SIGNAL_ERRORS UINT64_C(2)

// The cost, or 0 if the word is of another kind.
static inline uint64_t weir_signal_cost(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_COST ? word : 0;
}

static inline uint64_t weir_signal_of_errors(uint32_t errors) {
	return errors > 0 ? WEIR_SIGNAL_ERRORS << WEIR_SIGNAL_SHIFT | errors : 0;
}

static inline uint32_t weir_signal_errors(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_ERRORS ? (uint32_t)word : 0;
}

// A probe: latency in 2^14 ns (24 bits), time in 2^20 ns (24 bits), active requests (14 bits).
#define WEIR_SIGNAL_LATENCY_SHIFT 38
#define WEIR_SIGNAL_STAMP_SHIFT 14
#define WEIR_SIGNAL_STAMP_MASK 0xffffffu
#define WEIR_SIGNAL_LATENCY_MAX 0xffffffu
#define WEIR_SIGNAL_ACTIVE_MAX 0x3fffu

static inline uint32_t weir_signal_stamp(uint64_t now_ns) {
	return (uint32_t)(now_ns >> 20) & WEIR_SIGNAL_STAMP_MASK;
}

static inline uint64_t weir_signal_of_probe(uint64_t active, uint64_t latency_ns, uint64_t now_ns) {
	uint64_t latency = latency_ns >> 14;

	latency = latency < WEIR_SIGNAL_LATENCY_MAX ? latency : WEIR_SIGNAL_LATENCY_MAX;
	active = active < WEIR_SIGNAL_ACTIVE_MAX ? active : WEIR_SIGNAL_ACTIVE_MAX;
	return WEIR_SIGNAL_PROBE << WEIR_SIGNAL_SHIFT | latency << WEIR_SIGNAL_LATENCY_SHIFT |
	       (uint64_t)weir_signal_stamp(now_ns) << WEIR_SIGNAL_STAMP_SHIFT | active;
}

static inline bool weir_signal_is_probe(uint64_t word) {
	return word >> WEIR_SIGNAL_SHIFT == WEIR_SIGNAL_PROBE;
}

static inline uint32_t weir_signal_probe_active(uint64_t word) {
	return (uint32_t)word & WEIR_SIGNAL_ACTIVE_MAX;
}

static inline uint32_t weir_signal_probe_stamp(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_STAMP_SHIFT) & WEIR_SIGNAL_STAMP_MASK;
}

static inline uint32_t weir_signal_probe_latency(uint64_t word) {
	return (uint32_t)(word >> WEIR_SIGNAL_LATENCY_SHIFT) & WEIR_SIGNAL_LATENCY_MAX;
}
