// SPDX-License-Identifier: BSD-3-Clause
//
// History: sums of the workers' counters, every WEIR_HISTORY_MS, and starts of processes, so that a
// newly opened page has plots and events.
//
// Threads: one, or under a lock. Uses no clock.
#pragma once

#include <jansson.h>
#include <stdint.h>

#define WEIR_HISTORY_MS 5000
#define WEIR_HISTORY_SAMPLES 120 // ten minutes

// X(member of worker.show). rx_packets excludes packets that another worker received and handed
// over, so each packet counts once.
#define WEIR_HISTORY_FIGURES(X) X(rx_packets) X(forwarded) X(dropped) X(flow_new) X(flows)

struct weir_history_sample {
	uint64_t time_ms; // time of day
	int known; // 0 = no answer: a gap
#define X(field) int64_t field;
	WEIR_HISTORY_FIGURES(X)
#undef X
};

#define WEIR_HISTORY_STARTS 32 // the last ones, of both processes

// X(member of metrics.show with started_ms, process)
#define WEIR_HISTORY_PROCESSES(X) X(control, "weir-control") X(dataplane, "weir-dataplane")

enum weir_history_process {
#define X(member, name) WEIR_HISTORY_##member,
	WEIR_HISTORY_PROCESSES(X)
#undef X
};

struct weir_history_start {
	uint64_t time_ms; // time of day; 0 = none
	enum weir_history_process process;
};

struct weir_history { // zero-initialized
	struct weir_history_sample sample[WEIR_HISTORY_SAMPLES];
	uint32_t next, count;
	struct weir_history_start start[WEIR_HISTORY_STARTS];
	uint32_t next_start;
};

// workers: result of worker.show, or NULL.
void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers);
// {columns: [...], samples: [[time_ms, ...], ...]}, oldest first; a gap has only its time.
json_t *weir_history_json(const struct weir_history *history);

// Note the starts of both processes, if they are new. figures: result of metrics.show.
void weir_history_note_starts(struct weir_history *history, const json_t *figures);
// [{time_ms, process}, ...], in the order in which they were noted.
json_t *weir_history_starts_json(const struct weir_history *history);
