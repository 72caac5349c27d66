// SPDX-License-Identifier: BSD-3-Clause
//
// A histogram of latencies. Values up to 127 are exact; larger values have an error below 1.6 %.
// engine.c adds the latency of each packet; the histogram is read once per trial.
//
// Threads: one.
#pragma once

#include <stdint.h>

#define RIG_LATENCY_BITS 6 // log2 of the number of histogram slots for each power of two
#define RIG_LATENCY_SLOTS ((64 - RIG_LATENCY_BITS + 1) << RIG_LATENCY_BITS)

struct rig_latency {
	uint64_t count;
	uint64_t sum;
	uint64_t max;
	uint64_t slot[RIG_LATENCY_SLOTS];
};

static inline uint32_t rig_latency_slot(uint64_t value) {
	uint32_t shift;

	if (value < (2u << RIG_LATENCY_BITS)) {
		return (uint32_t)value;
	}
	shift = 63u - (uint32_t)__builtin_clzll(value) - RIG_LATENCY_BITS;
	return (shift << RIG_LATENCY_BITS) + (uint32_t)(value >> shift);
}

static inline void rig_latency_add(struct rig_latency *latency, uint64_t value) {
	latency->count++;
	latency->sum += value;
	if (value > latency->max) {
		latency->max = value;
	}
	latency->slot[rig_latency_slot(value)]++;
}

void rig_latency_clear(struct rig_latency *latency);

// Returns the latency that a share (0 to 1) of all latencies does not exceed, or 0 if there are no
// latencies. The value is rounded up to the end of its slot, but not beyond the largest latency.
uint64_t rig_latency_quantile(const struct rig_latency *latency, double share);
