// SPDX-License-Identifier: BSD-3-Clause
//
// Waiting flows: flows whose client has sent only SYNs, some time ago. Perhaps the backend has not
// replied; flows without a reply can be moved to another backend (steal_flow.h).
//
// A search walks over the table (flow_walk.h). Flows in phase WAITING (flow_bucket.h), flows that
// began in mid-connection, and flows that were moved and have had no SYN since do not count as
// waiting.
//
// Threads: one table per worker; only that worker calls these functions.
#pragma once

#include "flow_table.h"
#include "flow_walk.h"

#define WEIR_FLOW_WAITING_BACKENDS 4u

struct weir_flow_waiting_search {
	// Backends whose flows are searched for; WEIR_BACKEND_NONE = unused element.
	uint16_t backend[WEIR_FLOW_WAITING_BACKENDS];
	// Minimum time without a packet. A flow with a packet in the current tick does not count as
	// waiting.
	uint32_t idle_ms;
};

struct weir_flow_waiting {
	struct weir_flow_key key;
	uint32_t stamp; // weir_flow_waiting_stamp
	uint32_t idle_ms; // minimum time since the last packet, because ticks are rounded down
};

// Get the waiting flows of a line (below weir_flow_walk_lines) that match the search, up to
// WEIR_FLOW_WALK_LINE flows. Returns the number of flows; 0 if the table does not own the line.
uint32_t weir_flow_waiting_in(const struct weir_flow_table *table, uint32_t line,
	const struct weir_flow_waiting_search *search, uint64_t now_ns,
	struct weir_flow_waiting *ret);

// Returns a number that combines the state, the backend and the time of the last packet of a
// found flow. If two searches less than WEIR_FLOW_WRAP_NS_MIN apart return the same number, the
// flow has had no packet between them and was not moved.
uint32_t weir_flow_waiting_stamp(const struct weir_flow_table *table, weir_flow_ref flow);
