// SPDX-License-Identifier: BSD-3-Clause
//
// Samples: of the worker counters once a second, for rates over the last one or two
// seconds, however often they are queried.
//
// Threads: one. No clock of its own.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "segment.h"

#define WEIR_WORKER_ALIVE_NS 1000000000ull // a heartbeat older than this: not alive

struct weir_worker_sample {
	uint64_t busy_cycles;
	uint64_t idle_cycles;
};

struct weir_samples {
	struct weir_worker_sample before[WEIR_WORKERS_MAX]; // the last look but one
	struct weir_worker_sample last[WEIR_WORKERS_MAX];
};

// Start with this segment: counts so far do not matter.
void weir_samples_init(struct weir_samples *samples, const struct weir_segment *segment);
void weir_samples_take(struct weir_samples *samples, const struct weir_segment *segment);
// Share of its cycles since the sample before last that a worker spent on packets, 0..100; negative
// = it has counted none, as one that hangs.
double weir_samples_busy_percent(
	const struct weir_samples *samples, const struct weir_segment *segment, uint32_t worker);
bool weir_worker_alive(const struct weir_segment *segment, uint32_t worker, uint64_t now_ns);
