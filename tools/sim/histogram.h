// SPDX-License-Identifier: BSD-3-Clause
//
// Histogram of durations with a relative error below 1/64. Called by the simulation's metrics.
//
// Threads: one histogram belongs to one thread.
#pragma once

#include <stdint.h>

#define WEIR_SIM_HISTOGRAM_BITS 6u // 2^6 slots for each power of two
#define WEIR_SIM_HISTOGRAM_SLOTS ((64u - WEIR_SIM_HISTOGRAM_BITS + 1u) << WEIR_SIM_HISTOGRAM_BITS)

struct weir_sim_histogram { // must be zeroed before use
	uint64_t count;
	double sum_ns;
	uint32_t slot[WEIR_SIM_HISTOGRAM_SLOTS];
};

void weir_sim_histogram_add(struct weir_sim_histogram *histogram, uint64_t duration_ns);

// Returns a quantile of the durations, for example the median for fraction 0.5; 0 if there are no
// durations.
double weir_sim_histogram_quantile(const struct weir_sim_histogram *histogram, double fraction);
