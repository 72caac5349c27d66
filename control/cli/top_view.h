// SPDX-License-Identifier: BSD-3-Clause
//
// The view of weirctl top: the difference of two samples of counters, as text for a screen of a
// given size.
#pragma once

#include <time.h>

#include "command.h"

// Orders in which backends are shown. X(NAME, "word", "help", key)
#define WEIR_TOP_SORTS(X) \
	X(SERVICE, "service", "by service; rows do not move", 's') \
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

// Computes the view of the changes between two samples. The view has the keys interval_ms, workers,
// drops, ports, services and backends, as in weir_stats_rates; worker_rows, as in worker.show; and
// events: the last five of health.history, newest first. The caller adds the keys status and
// no_drops: {since: "dataplane", "top" or "drop", ms: duration without drops or null, total: number
// of drops since the dataplane started}. NULL = out of memory.
json_t *weir_top_between(
	const json_t *before, const json_t *after, json_t *worker_rows, json_t *events);
// Sort the backends, in place.
void weir_top_sort_backends(json_t *view, enum weir_top_sort sort);

// An outage: a time without new values.
struct weir_top_outage {
	time_t since; // start of the outage; 0 = no outage
	time_t figures; // time of the shown values, 0 = none
	char why[512]; // the error of the last request
};

// Write the level and the reasons of a status, and the outage, as one line; "" if the level is ok,
// and there are no reasons and no outage. status: the result of weirctl status; during an outage it
// has the member `control`.
void weir_top_banner(
	const json_t *status, const struct weir_top_outage *outage, char *banner, size_t bytes);

// Print the whole view. width: columns of the terminal, into which tables are fitted if possible; 0
// = unlimited.
void weir_top_print(FILE *out, const json_t *view, uint32_t width);

struct weir_top_screen {
	uint32_t rows, columns;
	bool colour; // faults are coloured
	bool stale; // the values are old, and are printed in grey
	uint32_t first; // index of the first backend shown; corrected to the valid range
};

// Draw the help about the keys.
void weir_top_draw_keys(FILE *out, const struct weir_top_screen *screen);

// Draw the title, the banner (on several lines if necessary) and the view, fitted to the size of
// the terminal. The backends get the lines that the other sections do not need. If the view has no
// backends, draws only the title and the banner.
void weir_top_draw(FILE *out, const json_t *view, const char *title, const char *banner,
	struct weir_top_screen *screen);
