// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics: summaries of many measured bursts. Called by measure.c and report.c.
//
// Threads: functions without state, but they sort their arrays.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One timed burst.
struct weir_bench_sample {
	uint32_t cycles; // without the cost of the timer
	uint16_t packets;
	uint16_t steady; // packets of flows that were in the table before the run
};

struct weir_bench_samples { // grows as it is filled
	struct weir_bench_sample *sample;
	size_t count, capacity;
};

struct weir_bench_summary {
	double median, min, max, mean, p99, p9999;
};

// Allocate memory for `count` samples in total. Returns 0, -ENOMEM.
int weir_bench_samples_reserve(struct weir_bench_samples *samples, size_t count);
void weir_bench_samples_fini(struct weir_bench_samples *samples);

static inline void weir_bench_samples_add(
	struct weir_bench_samples *samples, struct weir_bench_sample sample) {
	if (samples->count < samples->capacity) {
		samples->sample[samples->count++] = sample;
	}
}

// Merge two measurements of equal bursts: keep the smaller cost of each burst. Returns 0, or
// -EBADMSG if the numbers of bursts differ.
int weir_bench_samples_least(
	struct weir_bench_samples *samples, const struct weir_bench_samples *again);

// Returns a percentile of n >= 1 sorted values: the smallest value such that a `share` (0..1] of
// the values are not above it.
double weir_bench_percentile(const double *sorted, size_t n, double share);

// Summarize and sort n >= 1 values. The median of an even number of values is the mean of the two
// middle values.
struct weir_bench_summary weir_bench_summarize(double *values, size_t n);

// Summarize cycles per packet of n >= 1 bursts. The mean is over packets, not over bursts. Returns
// 0, -ENOMEM.
int weir_bench_summarize_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_summary *ret);

// The share of n >= 1 bursts that took more than `limit` cycles per packet.
double weir_bench_share_above(const struct weir_bench_sample *sample, size_t n, double limit);

// The cost of a steady packet and of another packet, in cycles, when bursts contain both: the
// least-squares fit of cycles = a * steady + b * others. The slowest hundredth of the bursts
// (interrupts) is left out. If all bursts have packets of one kind only, or all have the same
// proportion, b is 0 and a is the mean.
struct weir_bench_split {
	double steady, other;
};
int weir_bench_split_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_split *ret);
