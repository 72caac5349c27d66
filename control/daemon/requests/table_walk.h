// SPDX-License-Identifier: BSD-3-Clause
//
// Table walk: requests all lines of the workers' flow tables, by WEIR_MESSAGE_FLOW_LIST or
// WEIR_MESSAGE_FLOW_WAITING (mailbox.h). Each worker has several requests in flight, one per range
// of lines. A worker without a response for WEIR_TABLE_WALK_MS is left out.
//
// Threads: one, that of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mailboxes.h"

#define WEIR_TABLE_WALK_RANGES 16u // of a worker; of a list as many as it has pages
#define WEIR_TABLE_WALK_MS 1000u

struct weir_table_walk_lines { // to request
	uint32_t first, count;
	// Lines of the table: line 0 follows the last one. 0 = unknown: the first response contains
	// it, and the whole table is requested.
	uint32_t end;
	uint32_t range; // lines of a first request
};

struct weir_table_walk_worker {
	uint64_t answered_ms; // last response; 0 = after the last step
	struct weir_table_walk_lines lines;
	uint32_t done; // lines requested
	struct {
		uint64_t number; // of the request in flight; 0 = none
		uint32_t next, last; // lines; equal when none remain
	} range[WEIR_TABLE_WALK_RANGES];
};

struct weir_table_walk {
	struct weir_mailboxes *mailboxes;
	struct weir_message request; // without its lines; may change between steps
	uint64_t workers; // bitmap; clear a bit to send the worker no further request
	uint64_t silent; // bitmap: workers left out in the last step
	bool stuck; // a range without progress was not requested again
	struct weir_table_walk_worker worker[WEIR_WORKERS_MAX];
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

// Start a walk of the workers of a bitmap, as far as the dataplane has them. lines: of each.
void weir_table_walk_begin(struct weir_table_walk *walk, const struct weir_message *request,
	uint64_t workers, const struct weir_table_walk_lines *lines);
// Take the numbers of a worker's response. Returns its range, which is the page of a list; -1: it
// is late, or contains only the length of the table.
int weir_table_walk_take(struct weir_table_walk *walk, uint32_t worker, uint64_t sequence,
	uint32_t next, uint32_t lines);
// Send further requests. Returns whether a response is outstanding.
bool weir_table_walk_step(struct weir_table_walk *walk, uint64_t now_ms);
