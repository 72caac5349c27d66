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
	uint16_t steady; // number of these that belong to flows in the table before the run
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

// Merge two measurements of the same bursts: keep the smaller cost of each. Returns 0, -EBADMSG
// when their counts differ.
int weir_bench_samples_least(
	struct weir_bench_samples *samples, const struct weir_bench_samples *again);

// The smallest value that at least `share` (0..1] of n >= 1 sorted values do not exceed.
double weir_bench_percentile(const double *sorted, size_t n, double share);

// Sorts the n >= 1 values. The median of an even number is the mean of the two in the middle.
struct weir_bench_summary weir_bench_summarize(double *values, size_t n);

// Cycles per packet of n >= 1 bursts. The mean is that of packets, not of bursts. Returns 0,
// -ENOMEM.
int weir_bench_summarize_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_summary *ret);

// The share of n >= 1 bursts that took more than `limit` cycles per packet.
double weir_bench_share_above(const struct weir_bench_sample *sample, size_t n, double limit);

// The cost of a steady packet and of another packet, in cycles, when bursts contain both: the
// least-squares fit of cycles = a * steady + b * others. The slowest hundredth of the bursts
// (interrupts) is left out. If all bursts are of one kind, or have the same proportion, b is 0 and
// a the mean.
struct weir_bench_split {
	double steady, other;
};
int weir_bench_split_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_split *ret);
