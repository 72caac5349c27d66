// SPDX-License-Identifier: BSD-3-Clause
//
// Flow walk: asks workers about the lines of their flow tables, by WEIR_MESSAGE_FLOW_LIST or
// WEIR_MESSAGE_FLOW_WAITING (mailbox.h). Each worker has several messages in flight, one for each
// range of lines, and is asked again until it has answered for all lines. One that has not answered
// for WEIR_FLOW_WALK_MS is left out.
//
// Threads: one, that of the loop. No clock: time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "mailboxes.h"

#define WEIR_FLOW_WALK_RANGES 16u // of a worker; of a list as many as it has pages
#define WEIR_FLOW_WALK_MS 1000u

struct weir_flow_walk_lines { // to ask about
	uint32_t first, count;
	uint32_t
		end; // of the table: line 0 follows; 0 = ask for it, and then about the whole table
	uint32_t range; // lines of a range at first
};

struct weir_flow_walk_worker {
	uint64_t answered_ms; // 0 = since the last step
	struct weir_flow_walk_lines lines;
	uint32_t done; // of them: in a range, or answered
	struct {
		uint64_t number; // of the message in flight; 0 = none
		uint32_t next, last; // lines; none are left when they are equal
	} range[WEIR_FLOW_WALK_RANGES];
};

struct weir_flow_walk {
	struct weir_mailboxes *mailboxes;
	struct weir_message question; // but for its lines; may change between steps
	uint64_t asked; // bitmap: workers; a cleared one is not asked again
	uint64_t silent; // bitmap: workers that were left out in the last step
	bool stuck; // a worker made no progress; it was not asked again about those lines
	struct weir_flow_walk_worker worker[WEIR_WORKERS_MAX];
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "bitmaps of workers");

// Begin anew, with those workers of the bitmap that the dataplane has. lines: of each.
void weir_flow_walk_begin(struct weir_flow_walk *walk, const struct weir_message *question,
	uint64_t asked, const struct weir_flow_walk_lines *lines);
// A worker's response, with these numbers in it. Returns the range that it is about, which is the
// page of a list; -1 = it is late, or was asked for the end of the table alone.
int weir_flow_walk_take(struct weir_flow_walk *walk, uint32_t worker, uint64_t sequence,
	uint32_t next, uint32_t lines);
// Ask on. Returns whether answers are still to come.
bool weir_flow_walk_step(struct weir_flow_walk *walk, uint64_t now_ms);
