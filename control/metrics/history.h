// SPDX-License-Identifier: BSD-3-Clause
//
// History: sums of the workers' counters, in one ring for twenty minutes and one for a day, and
// starts of processes, so that a newly opened page has plots and events. As JSON it is the same for
// the page and for the file (history_file.h).
//
// Threads: one, or under a lock. Uses no clock: times are an argument, time of day.
#pragma once

#include <jansson.h>
#include <stdint.h>

#define WEIR_HISTORY_SAMPLES 240 // of a ring
#define WEIR_HISTORY_STARTS 32 // the last ones, of both processes

#define WEIR_HISTORY_MS 5000

// X(name, ms between samples)
#define WEIR_HISTORY_RINGS(X) X(RECENT, WEIR_HISTORY_MS) X(DAY, 360000)

enum weir_history_ring {
#define X(name, ms) WEIR_HISTORY_##name,
	WEIR_HISTORY_RINGS(X)
#undef X
		WEIR_HISTORY_RING_COUNT,
};

// X(member of worker.show). rx_packets excludes packets that another worker received and handed
// over, so each packet counts once.
#define WEIR_HISTORY_FIGURES(X) X(rx_packets) X(forwarded) X(dropped) X(flow_new) X(flows)

struct weir_history_sample {
	uint64_t time_ms;
	int known; // 0 = no answer: a gap
#define X(field) int64_t field;
	WEIR_HISTORY_FIGURES(X)
#undef X
};

struct weir_history_samples { // of increasing times
	struct weir_history_sample sample[WEIR_HISTORY_SAMPLES];
	uint32_t next, count;
};

// X(member of metrics.show with started_ms, process)
#define WEIR_HISTORY_PROCESSES(X) X(control, "weir-control") X(dataplane, "weir-dataplane")

enum weir_history_process {
#define X(member, name) WEIR_HISTORY_##member,
	WEIR_HISTORY_PROCESSES(X)
#undef X
};

struct weir_history_start {
	uint64_t time_ms; // 0 = none
	enum weir_history_process process;
};

struct weir_history { // zero-initialized
	struct weir_history_samples ring[WEIR_HISTORY_RING_COUNT];
	struct weir_history_start start[WEIR_HISTORY_STARTS];
	uint32_t next_start;
};

// Add a sample to the rings in which one is due; call it every WEIR_HISTORY_MS. workers: result of
// worker.show, or NULL. Samples from this time on, of a clock that was set back, are removed.
void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers);

// Note the starts of both processes, if they are new. figures: result of metrics.show, or NULL.
void weir_history_note_starts(struct weir_history *history, const json_t *figures);

// {columns: [...], rings: [{period_ms, samples: [[time_ms, ...], ...]}, ...], starts: [{time_ms,
// process}, ...]}, oldest first; a gap has only its time. NULL if out of memory.
json_t *weir_history_json(const struct weir_history *history);
// Take over what weir_history_json made, which may be anything: all is checked. Later samples than
// now_ms are left out. Returns 0, or -EINVAL (history is unchanged).
int weir_history_parse(const json_t *json, uint64_t now_ms, struct weir_history *history);
