// SPDX-License-Identifier: BSD-3-Clause
//
// History: samples of the counters, summed over all workers, and the start times of processes. One
// ring of samples covers twenty minutes, and another ring covers a day. When the page is opened, it
// immediately shows the plots and process starts of the history. The page and the file
// (history_file.h) use the same JSON format.
//
// Threads: one, or under a lock. Reads no clock: the Unix time is an argument.
#pragma once

#include <jansson.h>
#include <stdint.h>

#define WEIR_HISTORY_SAMPLES 240 // number of samples in a ring
// Maximum number of starts, for weir-control and weir-dataplane together.
#define WEIR_HISTORY_STARTS 32

#define WEIR_HISTORY_MS 5000

// X(name, ms between samples)
#define WEIR_HISTORY_RINGS(X) X(RECENT, WEIR_HISTORY_MS) X(DAY, 360000)

enum weir_history_ring {
#define X(name, ms) WEIR_HISTORY_##name,
	WEIR_HISTORY_RINGS(X)
#undef X
		WEIR_HISTORY_RING_COUNT,
};

// X(member of worker.show). rx_packets excludes packets that were handed over to another worker, so
// that each packet is counted once.
#define WEIR_HISTORY_FIGURES(X) X(rx_packets) X(forwarded) X(dropped) X(flow_new) X(flows)

struct weir_history_sample {
	uint64_t time_ms;
	int known; // 0 = there was no reply, so the plots have a gap
#define X(field) int64_t field;
	WEIR_HISTORY_FIGURES(X)
#undef X
};

struct weir_history_samples { // samples in order of time, in a ring
	struct weir_history_sample sample[WEIR_HISTORY_SAMPLES];
	uint32_t next, count;
};

// X(member of metrics.show, process). The member contains started_ms.
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

// Adds a sample to each ring in which a sample is due. Call this function every WEIR_HISTORY_MS.
// workers: result of worker.show; NULL = no reply. If the clock was set back, samples that are not
// older than time_ms are removed.
void weir_history_add(struct weir_history *history, uint64_t time_ms, const json_t *workers);

// Adds the starts of weir-control and weir-dataplane that are not stored yet. figures: result of
// metrics.show, or NULL.
void weir_history_note_starts(struct weir_history *history, const json_t *figures);

// Returns the history as JSON, with samples and starts from the oldest to the newest: {columns:
// [...], rings: [{period_ms, samples: [[time_ms, ...], ...]}, ...], starts: [{time_ms, process},
// ...]}. A sample for which there was no reply contains only its time. Returns NULL if out of
// memory.
json_t *weir_history_json(const struct weir_history *history);
// Read the JSON of weir_history_json. Every value is checked, because the file can be damaged or
// edited. Samples and starts later than now_ms are left out. Returns 0, or -EINVAL with history
// unchanged.
int weir_history_parse(const json_t *json, uint64_t now_ms, struct weir_history *history);
