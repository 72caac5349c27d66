// SPDX-License-Identifier: BSD-3-Clause
//
// Table walk: requests all lines of the workers' flow tables, with WEIR_MESSAGE_FLOW_LIST or
// WEIR_MESSAGE_FLOW_WAITING (mailbox.h), or of the affinity table, with WEIR_MESSAGE_SOURCE_WALK.
// Each worker gets several requests at a time, one per range of lines, and answers one request
// between two bursts. A worker that does not respond for WEIR_TABLE_WALK_MS is left out.
//
// Threads: the thread of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mailboxes.h"

// Maximum number of ranges per worker. Each range has one pending request at a time. A list of
// flows, or a count of affinity entries, uses only WEIR_FLOW_PAGES ranges, one per page; other
// requests use no pages.
#define WEIR_TABLE_WALK_RANGES 16u
#define WEIR_TABLE_WALK_MS 1000u

struct weir_table_walk_lines { // the lines to request
	uint32_t first, count;
	// Number of lines of the table; line 0 follows the last line. 0 = unknown: the number is in
	// the first response, and the whole table is then requested.
	uint32_t end;
	uint32_t range; // number of lines in the first request for a range
};

struct weir_table_walk_worker {
	// Time of the first step after the last response, or after the start of the walk; 0 = there
	// has been no such step yet.
	uint64_t answered_ms;
	struct weir_table_walk_lines lines;
	uint32_t done; // number of lines that were assigned to ranges
	struct {
		uint64_t number; // sequence number of the pending request; 0 = none
		uint32_t next, last; // remaining lines; equal if no lines remain
	} range[WEIR_TABLE_WALK_RANGES];
};

struct weir_table_walk {
	struct weir_mailboxes *mailboxes;
	// The request, without its lines. The caller may change it between steps.
	struct weir_message request;
	// Bitmap of the workers. If the caller clears a bit, no further requests are sent to that
	// worker.
	uint64_t workers;
	uint64_t silent; // bitmap of the workers that were left out in the last step
	// the walk no longer requests a range, because the responses for it made no progress
	bool stuck;
	struct weir_table_walk_worker worker[WEIR_WORKERS_MAX];
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

// Starts a walk over the tables of workers. workers: bitmap; workers that the dataplane does not
// have are ignored. lines: the lines to request from each worker.
void weir_table_walk_begin(struct weir_table_walk *walk, const struct weir_message *request,
	uint64_t workers, const struct weir_table_walk_lines *lines);
// Handles the response of a worker. Returns the index of the range to which the response belongs;
// in a list, this is also the index of the page that contains the flows. Returns -1 if the response
// is late, or if it contains only the length of the table.
int weir_table_walk_take(struct weir_table_walk *walk, uint32_t worker, uint64_t sequence,
	uint32_t next, uint32_t lines);
// Sends the requests that are due. Returns whether responses, or requests to a full mailbox, are
// outstanding.
bool weir_table_walk_step(struct weir_table_walk *walk, uint64_t now_ms);
