// SPDX-License-Identifier: BSD-3-Clause
//
// Costs of changes: how many open flows a reload, or a restart of the dataplane, breaks, moves or
// leaves with removed backends. As described in docs/guide/operations.md, "Drain and maintenance"
// and "Upgrade"; UDP and TCP flows are not counted separately, so texts name both where a service
// has both. A change that ends what was set by hand says so, too (change_hand.h).
//
// Threads: one. Reads the counters of the workers.
#pragma once

#include "change_hand.h"
#include "config_difference.h"
#include "segment.h"
#include "tables.h"

struct weir_change_costs_of { // input; borrowed
	const struct weir_tables *tables; // NULL before the first dataplane
	const struct weir_segment *segment; // NULL without a dataplane
	const struct weir_config *from, *to; // that the difference was computed of
	weir_keeping_canary_fn keeping_canary; // NULL = there are no canaries
	const void *canaries; // its context
};

struct weir_restart_cost { // of a restart of the dataplane
	uint64_t open; // flows
	uint64_t lost; // of these, probably lost: they go to other backends, or to none
	uint64_t older; // of lost: go on if they began after the last change of backends or weights
};

// What a restart of the dataplane costs now, without any change. A flow goes on if its service has
// the policy maglev, its backend is in the selection, and it began there after the last change of
// backends or weights (weir_tables_former_flows). Of the others, some find their backend by chance:
// lost is an upper limit.
struct weir_restart_cost weir_restart_cost(
	const struct weir_tables *tables, const struct weir_segment *segment);
// "it breaks up to 21 of 40 open flows, 9 of them only if they began before the last change of
// backends or weights"; seed: hash_seed changes, and lost is all. Returns text.
const char *weir_restart_cost_text(
	const struct weir_restart_cost *cost, bool seed, char *text, size_t bytes);

// Set the costs of all changes of a difference; without a dataplane only what
// was set by hand. Call before the change is applied. Returns 0 or -ENOMEM (some are not set).
int weir_change_costs(const struct weir_change_costs_of *of, struct weir_difference *difference);
