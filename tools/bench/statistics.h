// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics: summaries of many measured bursts. Called by measure.c and run.c.
//
// Threads: any. The functions have no state.
#pragma once

#include <stddef.h>
#include <stdint.h>

// One timed burst.
struct weir_bench_sample {
	uint32_t cycles; // duration in cycles, without the cost of the timer
	uint16_t packets;
	uint16_t steady; // packets of flows that were in the table before the run
};

// All fields are 0 at first. weir_bench_samples_reserve allocates the memory;
// weir_bench_samples_add drops a sample for which there is no memory.
struct weir_bench_samples {
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

// Merges two measurements of the same bursts: `samples` keeps the lower cost of each burst in
// `samples` and `again`. Returns 0, or -EBADMSG if the numbers of bursts differ.
int weir_bench_samples_least(
	struct weir_bench_samples *samples, const struct weir_bench_samples *again);

// Returns a percentile of n >= 1 sorted values: the smallest value that is greater than or equal to
// a `share` (0..1] of the values.
double weir_bench_percentile(const double *sorted, size_t n, double share);

// Summarize and sort n >= 1 values. The median of an even number of values is the mean of the two
// middle values.
struct weir_bench_summary weir_bench_summarize(double *values, size_t n);

// Summarizes the cycles per packet of n >= 1 bursts. The mean is the mean of all packets, not of
// all bursts. Returns 0, -ENOMEM.
int weir_bench_summarize_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_summary *ret);

// Returns the share of n >= 1 bursts that took more than `limit` cycles per packet.
double weir_bench_share_above(const struct weir_bench_sample *sample, size_t n, double limit);

// The cost in cycles of a steady packet (a) and of any other packet (b): the least-squares fit of
// cycles = a * steady + b * others over all bursts. The slowest 1 % of the bursts is left out,
// because of interrupts. If all bursts have only one kind of packets, or all have the same
// proportion, b is 0 and a is the mean cost of a packet.
struct weir_bench_split {
	double steady, other;
};
int weir_bench_split_bursts(
	const struct weir_bench_sample *sample, size_t n, struct weir_bench_split *ret);
