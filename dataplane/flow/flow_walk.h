// SPDX-License-Identifier: BSD-3-Clause
//
// Flow walk: iterates over a flow table, one line (the flows of a bucket) at a time. The order is
// fixed, so that a walk can be resumed even if flows have begun or ended in the meantime. A walk
// returns exactly once each flow that stays in the table and does not expire. Exception: the
// insertion of a new flow may move a flow to another bucket (flow_insert.c). The walk may then
// return the moved flow twice or not at all.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include "flow_table.h"

#define WEIR_FLOW_WALK_LINE 4u // maximum number of flows in a line

struct weir_flow_walked { // data of a flow
	weir_flow_ref flow;
	uint32_t idle_ms; // time since the last packet
	enum weir_flow_state state;
	struct weir_flow_key key;
	uint16_t backend;
};

// Returns the number of lines of the table: IPv4 lines first, then IPv6 lines.
uint32_t weir_flow_walk_lines(const struct weir_flow_table *table);
// Returns the family of a line, 4 or 6. line: below weir_flow_walk_lines.
uint8_t weir_flow_walk_family(const struct weir_flow_table *table, uint32_t line);
// Returns the first line at or after `line` that the table owns (flow_parts.h), or the number of
// lines.
uint32_t weir_flow_walk_owned(const struct weir_flow_table *table, uint32_t line);
// Get the flows of a line (below weir_flow_walk_lines), without expired flows, up to
// WEIR_FLOW_WALK_LINE flows. Returns the number of flows; 0 if the table does not own the line.
uint32_t weir_flow_walk(const struct weir_flow_table *table, uint32_t line, uint64_t now_ns,
	struct weir_flow_walked *ret);
