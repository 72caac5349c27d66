// SPDX-License-Identifier: BSD-3-Clause
//
// The view of weirctl top: samples of the daemon's counters, and their text for a screen of a given
// size.
#pragma once

#include "command.h"

// How backends are sorted. X(NAME, "word", "help", key)
#define WEIR_TOP_SORTS(X) \
	X(SERVICE, "service", "by service: rows stay in place", 's') \
	X(NEW_FLOWS, "new-flows", "most new flows per second first", 'n') \
	X(PACKETS, "packets", "most packets per second first", 'p') \
	X(ACTIVE, "active", "most active flows first", 'a') \
	X(WEIGHT, "weight", "highest weight first", 'w') \
	X(NAME, "name", "by service and name", 'b')

enum weir_top_sort {
#define X(name, word, help, key) WEIR_TOP_##name,
	WEIR_TOP_SORTS(X)
#undef X
};

// Between two samples: {interval_ms, workers, drops, ports, services, backends} as from
// weir_stats_rates, worker_rows as from worker.show, events as from health.history, newest last.
json_t *weir_top_between(
	const json_t *before, const json_t *after, json_t *worker_rows, json_t *events);
// Sort the backends, in place.
void weir_top_sort_backends(json_t *view, enum weir_top_sort sort);

// If this instance should get no traffic, or something needs attention (view.status, as weirctl
// status shows it): append the reasons to the title.
void weir_top_add_faults(const json_t *view, char *title, size_t bytes);

// Print all of it.
void weir_top_print(FILE *out, const json_t *view);

struct weir_top_screen {
	uint32_t rows, columns;
	bool colour; // what is wrong stands out
	uint32_t first; // index of the first backend shown; corrected to the valid range
};

// The keys, instead of the view.
void weir_top_draw_keys(FILE *out, const struct weir_top_screen *screen);

// Draw it on a terminal, cut to its size: backends take the remaining lines.
void weir_top_draw(
	FILE *out, const json_t *view, const char *title, struct weir_top_screen *screen);
