// SPDX-License-Identifier: BSD-3-Clause
//
// Flow walk: all flows of a table, a line at a time (flow_waiting.h), with what is known of each.
// What is in the table from the beginning of a walk to its end is met once, whatever ends
// meanwhile; but a flow that begins may make another one move to its other bucket (flow_insert.c),
// which is then met twice or not at all.
//
// Threads: one table per worker; only that worker calls this.
#pragma once

#include "flow_table.h"
#include "flow_waiting.h"

struct weir_flow_met {
	weir_flow_ref flow;
	uint32_t idle_ms; // since its last packet
	enum weir_flow_state state;
	struct weir_flow_key key;
	uint16_t backend;
};

// The flows of a line (below weir_flow_waiting_lines) that the table owns, without those that have
// expired, up to WEIR_FLOW_WAITING_LINE. Returns how many.
uint32_t weir_flow_walk(const struct weir_flow_table *table, uint32_t line, uint64_t now_ns,
	struct weir_flow_met *ret);
