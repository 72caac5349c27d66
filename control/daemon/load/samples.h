// SPDX-License-Identifier: BSD-3-Clause
//
// Samples: looks at the workers once a second, so that rates can be told over the last one or two
// seconds, whoever asks how often.
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

// Begin with this segment: all it has counted so far is the past.
void weir_samples_init(struct weir_samples *samples, const struct weir_segment *segment);
void weir_samples_take(struct weir_samples *samples, const struct weir_segment *segment);
// Share of its cycles since the last look but one that a worker spent on packets, 0..100.
double weir_samples_busy_percent(
	const struct weir_samples *samples, const struct weir_segment *segment, uint32_t worker);
bool weir_worker_alive(const struct weir_segment *segment, uint32_t worker, uint64_t now_ns);
