// SPDX-License-Identifier: BSD-3-Clause
//
// The view of weirctl top: samples of the daemon's counters, and their text for a screen of a given
// size.
#pragma once

#include <time.h>

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
// The caller adds status, and no_drops: {since: "dataplane", "top" or "drop", ms, total}, for how
// long there were no drops, and the number of those before; ms is null if unknown.
json_t *weir_top_between(
	const json_t *before, const json_t *after, json_t *worker_rows, json_t *events);
// Sort the backends, in place.
void weir_top_sort_backends(json_t *view, enum weir_top_sort sort);

// While there are no new figures.
struct weir_top_outage {
	time_t since; // 0 = there are
	time_t figures; // time of those that are shown, 0 = none
	char why[512]; // the error of the last request
};

// Level and reasons of a status as of weirctl status (with `control` while there is an outage), in
// one line. Without reasons "".
void weir_top_banner(
	const json_t *status, const struct weir_top_outage *outage, char *banner, size_t bytes);

// Print all of it, fitted to width if possible; 0 = unlimited.
void weir_top_print(FILE *out, const json_t *view, uint32_t width);

struct weir_top_screen {
	uint32_t rows, columns;
	bool colour; // what is wrong stands out
	bool stale; // figures are grey
	uint32_t first; // index of the first backend shown; corrected to the valid range
};

// The keys, instead of the view.
void weir_top_draw_keys(FILE *out, const struct weir_top_screen *screen);

// Draw it on a terminal, fitted to its size: below the title the banner, on several lines if
// necessary; backends take the remaining lines. A view without backends: title and banner only.
void weir_top_draw(FILE *out, const json_t *view, const char *title, const char *banner,
	struct weir_top_screen *screen);
