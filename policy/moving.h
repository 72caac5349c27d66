// SPDX-License-Identifier: BSD-3-Clause
//
// Moving statistics of one backend: simple moving average and simple moving median of its last
// service times, and count, sum, minimum and maximum of all its service times. The statistics are
// exact: samples are integers in nanoseconds, and the sum of the window is updated with every
// sample.
//
// Called by weir-control, which collects the workers' measurements, and by the simulator.
//
// Threads: one set of statistics belongs to one thread. Only create and free allocate.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_MOVING_WINDOW 386u // default number of samples

struct weir_moving; // uses about window * 12 bytes, or window * 20 bytes with a median

// Statistics of a backend. All zero before the first sample.
struct weir_moving_stats {
	uint64_t count; // count, sum, least and most are over all samples, not only the window
	uint64_t sum_ns; // saturates at UINT64_MAX
	uint64_t least_ns;
	uint64_t most_ns;
	uint64_t last_ns; // time of the newest sample
	uint64_t window_sum_ns; // sum of the samples in the window
	uint32_t window_count;
	uint64_t mean_ns; // mean of the window, rounded to the nearest ns
	// Median of the window (the mean of the middle two if the count is even, rounded down); 0
	// if there is no median
	uint64_t median_ns;
};

// Create statistics. Returns NULL if there is no memory or window is 0.
struct weir_moving *weir_moving_create(uint32_t window, bool median);
void weir_moving_free(struct weir_moving *moving); // NULL is allowed

// Add a sample, limited to 2^64 / window. Cost: O(1); with a median, also a binary search and a
// memmove.
void weir_moving_add(struct weir_moving *moving, uint64_t sample_ns, uint64_t now_ns);
// Add one sample n times, for a backend that reports the mean of n requests. n = 0 does nothing.
// Cost: at most the cost of n samples, because up to n older samples leave the window; less if
// these samples are equal.
void weir_moving_add_many(
	struct weir_moving *moving, uint64_t sample_ns, uint64_t n, uint64_t now_ns);

// Discard all samples, because the backend was replaced. Window and median stay as created.
void weir_moving_reset(struct weir_moving *moving);

void weir_moving_read(const struct weir_moving *moving, struct weir_moving_stats *ret_stats);

// Returns the estimate of the service time for policies: the median if it is kept, otherwise the
// mean; at least 1. Returns 0 (unknown) if there was no sample within ttl_ns. After the next
// sample, the older samples of the window are used again.
uint64_t weir_moving_estimate_ns(
	const struct weir_moving *moving, uint64_t now_ns, uint64_t ttl_ns);

// Converts the estimates of a service's backends to the costs that workers read. An unknown
// estimate (0) becomes the mean of the known estimates, or stays 0 if no estimate is known. Input
// and output may be the same array.
void weir_moving_costs(const uint64_t *estimates_ns, uint32_t n, uint64_t *costs_ns);
