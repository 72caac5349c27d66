// SPDX-License-Identifier: BSD-3-Clause
//
// Samples: the worker counters once a second, for rates over the last one to two seconds,
// independent of the rate of queries.
//
// Threads: one. No clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "segment.h"

struct weir_worker_sample {
	uint64_t busy_cycles;
	uint64_t idle_cycles;
};

struct weir_samples {
	struct weir_worker_sample before[WEIR_WORKERS_MAX]; // the last sample but one
	struct weir_worker_sample last[WEIR_WORKERS_MAX];
};

// Start with the present counts of this segment.
void weir_samples_init(struct weir_samples *samples, const struct weir_segment *segment);
void weir_samples_take(struct weir_samples *samples, const struct weir_segment *segment);
// Share of its cycles since the last sample but one that a worker spent on packets, 0..100;
// negative = it counted no cycles, e.g. because it is stalled.
double weir_samples_busy_percent(
	const struct weir_samples *samples, const struct weir_segment *segment, uint32_t worker);
