// SPDX-License-Identifier: BSD-3-Clause
//
// History: sums of what workers count, once every WEIR_HISTORY_MS, for the plots of a page that was
// just opened.
//
// Threads: one, or under a lock. No clock of its own.
#pragma once

#include <jansson.h>
#include <stdint.h>

#define WEIR_HISTORY_MS 5000
#define WEIR_HISTORY_SAMPLES 120 // ten minutes

// X(member of worker.show). rx_packets are without those that another worker has received and
// handed over: what came.
#define WEIR_HISTORY_FIGURES(X) X(rx_packets) X(forwarded) X(dropped) X(flow_new) X(flows)

struct weir_history_sample {
	uint64_t time_ms; // of the day
	int known; // 0 = there was no answer: a gap
#define X(field) int64_t field;
	WEIR_HISTORY_FIGURES(X)
#undef X
};

struct weir_history {
	struct weir_history_sample sample[WEIR_HISTORY_SAMPLES];
	uint32_t next, count;
};

// workers: result of worker.show, or NULL.
void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers);
// {columns: [...], samples: [[time_ms, ...], ...]}, the oldest first; a gap has its time alone.
json_t *weir_history_json(const struct weir_history *history);
