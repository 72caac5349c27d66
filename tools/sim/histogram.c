// SPDX-License-Identifier: BSD-3-Clause
#include "histogram.h"

#include <math.h>

#define STEPS (1u << WEIR_SIM_HISTOGRAM_BITS)

// Returns the slot (histogram bucket) of a value. Each value below STEPS has its own slot. For
// larger values, each power of two is divided into STEPS slots.
static uint32_t slot_of(uint64_t value) {
	uint32_t octave;

	if (value < STEPS) {
		return (uint32_t)value;
	}
	octave = 63u - (uint32_t)__builtin_clzll(value) - WEIR_SIM_HISTOGRAM_BITS;
	return (octave << WEIR_SIM_HISTOGRAM_BITS) + (uint32_t)(value >> octave);
}

// Returns the value in the middle of a slot.
static double value_of(uint32_t slot) {
	uint32_t octave = slot / STEPS;

	if (octave <= 1) {
		return slot;
	}
	return ldexp((double)(slot % STEPS + STEPS) + 0.5, (int)octave - 1);
}

void weir_sim_histogram_add(struct weir_sim_histogram *histogram, uint64_t duration_ns) {
	histogram->count++;
	histogram->sum_ns += (double)duration_ns;
	histogram->slot[slot_of(duration_ns)]++;
}

double weir_sim_histogram_quantile(const struct weir_sim_histogram *histogram, double fraction) {
	double wanted = ceil(fraction * (double)histogram->count);
	double seen = 0;

	if (histogram->count == 0) {
		return 0;
	}
	wanted = wanted < 1 ? 1 : wanted;
	for (uint32_t slot = 0; slot < WEIR_SIM_HISTOGRAM_SLOTS; slot++) {
		seen += histogram->slot[slot];
		if (seen >= wanted) {
			return value_of(slot);
		}
	}
	return value_of(WEIR_SIM_HISTOGRAM_SLOTS - 1);
}
