// SPDX-License-Identifier: BSD-3-Clause
//
// Moving statistics of one backend: simple moving average and simple moving median of its service
// times over the last samples, and count, sum, least and most over all of them. Exact: samples are
// whole nanoseconds, the sum of the window is kept as they come and go.
//
// Called by weir-control, which gathers what the workers measured, and by the simulator.
//
// Threads: one set of statistics belongs to one thread. create and free allocate, nothing else
// does.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_MOVING_WINDOW 386u // samples, unless configured

struct weir_moving; // about window * 12 bytes, 20 with a median

// What is known of a backend. All zero before the first sample.
struct weir_moving_stats {
	uint64_t count; // lifetime; never windowed, like sum, least and most
	uint64_t sum_ns; // stays at UINT64_MAX once there
	uint64_t least_ns;
	uint64_t most_ns;
	uint64_t last_ns; // time of the newest sample
	uint64_t window_sum_ns; // of the samples in the window
	uint32_t window_count;
	uint64_t mean_ns; // of the window, rounded to the nearest
	uint64_t median_ns; // mean of the two in the middle when even; 0 when not kept
};

// Returns NULL when out of memory or when window is 0.
struct weir_moving *weir_moving_create(uint32_t window, bool median);
void weir_moving_free(struct weir_moving *moving); // NULL is legal

// Add a sample. One of more than 2^64 / window counts as that much.
// Cost: O(1); with a median a binary search and a memmove.
void weir_moving_add(struct weir_moving *moving, uint64_t sample_ns, uint64_t now_ns);
// The same n times at once, n = 0 is nothing: what a backend reports is the mean of n requests.
// Cost: as of one sample, however large n is; with a median the memmove is of n more.
void weir_moving_add_many(
	struct weir_moving *moving, uint64_t sample_ns, uint64_t n, uint64_t now_ns);

// Forget everything: the backend was replaced.
void weir_moving_reset(struct weir_moving *moving);

void weir_moving_read(const struct weir_moving *moving, struct weir_moving_stats *ret_stats);

// The mean, or the median if it is kept, as policies use it: at least 1. 0 = unknown: no sample, or
// none within ttl_ns. Old samples are back with the next one.
uint64_t weir_moving_estimate_ns(
	const struct weir_moving *moving, uint64_t now_ns, uint64_t ttl_ns);

// Estimates of one service's backends into the costs that workers read: an unknown backend (0)
// costs the mean of the known ones, 0 if none is known. May be in place.
void weir_moving_costs(const uint64_t *estimates_ns, uint32_t n, uint64_t *costs_ns);
