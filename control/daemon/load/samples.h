// SPDX-License-Identifier: BSD-3-Clause
//
// Samples: copies the counters of workers once a second. Rates over the last one to two seconds are
// computed from these samples, so they do not depend on how often clients query them.
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

struct weir_samples { // index: worker
	struct weir_worker_sample before[WEIR_WORKERS_MAX]; // the sample taken before `last`
	struct weir_worker_sample last[WEIR_WORKERS_MAX];
};

// Sets both samples to the current counters of this segment.
void weir_samples_init(struct weir_samples *samples, const struct weir_segment *segment);
void weir_samples_take(struct weir_samples *samples, const struct weir_segment *segment);
// Returns the percentage of cycles that a worker spent on packets since the second-to-last sample,
// 0 to 100. Negative = the worker has counted no cycles since then, for example because the worker
// is stalled.
double weir_samples_busy_percent(
	const struct weir_samples *samples, const struct weir_segment *segment, uint32_t worker);
