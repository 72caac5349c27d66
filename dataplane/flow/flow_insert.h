// SPDX-License-Identifier: BSD-3-Clause
//
// Flow insertion: finds a slot for a new flow, and moves or evicts other flows when both buckets of
// the new flow are full (F2, F3 and F4 of flow_table.h).
//
// Threads: one table per worker; only that worker calls this function.
#pragma once

#include "flow.h"

struct weir_flow_table;

// Insert a new flow. The key must not be in the table: look up the key first. start: how the flow
// begins. Returns the flow. Returns -ENOSPC if the table or both buckets are full or the limit of
// half-open flows is reached, and no flow can be evicted (F3), or if the table has no free number
// for an IPv6 destination (WEIR_FLOW_DESTINATIONS_MAX). After -ENOSPC the caller forwards the
// packet without an entry.
weir_flow_ref weir_flow_insert(struct weir_flow_table *table, const struct weir_flow_key *key,
	uint64_t hash, const struct weir_flow_start *start);
