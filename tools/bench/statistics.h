// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics: summaries of many measured bursts. Called by measure.c and report.c.
//
// Threads: pure functions, but for the arrays that they sort.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One timed burst.
struct weir_bench_sample {
	uint32_t cycles; // the timer's own cost is taken off
	uint16_t packets;
	uint16_t steady; // of these, packets of flows that the table held before the run
};

struct weir_bench_samples { // grows as it is filled
	struct weir_bench_sample *sample;
	size_t count, capacity;
};

struct weir_bench_summary {
	double median, min, max, mean, p99, p9999;
};

// Room for `count` samples in all. Returns 0, -ENOMEM.
int weir_bench_samples_reserve(struct weir_bench_samples *samples, size_t count);
void weir_bench_samples_fini(struct weir_bench_samples *samples);

static inline void weir_bench_samples_add(
	struct weir_bench_samples *samples, struct weir_bench_sample sample) {
	if (samples->count < samples->capacity) {
		samples->sample[samples->count++] = sample;
	}
}

// The same bursts, measured twice: keep the lesser cost of each. Returns 0, -EBADMSG when their
// counts differ.
int weir_bench_samples_least(
	struct weir_bench_samples *samples, const struct weir_bench_samples *again);

// The smallest value that at least `share` (0..1] of n >= 1 sorted values do not exceed.
double weir_bench_percentile(const double *sorted, size_t n, double share);

// Sorts the n >= 1 values. The median of an even number is the mean of the two in the middle.
struct weir_bench_summary weir_bench_summarize(double *values, size_t n);

// Cycles per packet of n >= 1 bursts. The mean is over packets, not over bursts.
// Returns 0, -ENOMEM.
int weir_bench_summarize_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_summary *ret);

// The share of n >= 1 bursts that took more than `limit` cycles per packet.
double weir_bench_share_above(const struct weir_bench_sample *sample, size_t n, double limit);

// What a steady packet and another packet cost, in cycles, when bursts hold both: the least squares
// of cycles = a * steady + b * others. The slowest hundredth of the bursts (interrupts) is left
// out. With bursts of one kind, or of one proportion, b is 0 and a the mean.
struct weir_bench_split {
	double steady, other;
};
int weir_bench_split_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_split *ret);
