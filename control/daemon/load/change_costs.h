// SPDX-License-Identifier: BSD-3-Clause
//
// Costs of changes: computes how many open flows break, move to other backends, or stay on removed
// backends, because of a reload or a restart of the dataplane. The rules are in
// docs/guide/operations.md, "Drain and maintenance" and "Upgrade". UDP and TCP flows are not
// counted separately: if a service has both protocols, the text describes the effect on each
// protocol, but has only one number of flows. The text of a change also lists the manual settings
// that the change discards (change_hand.h). During the recount of flows after a restart of the
// dataplane (weir_tables_recount_left_ms) the numbers are lower limits, and the texts say so.
//
// Threads: one. Reads the counters of the workers.
#pragma once

#include "change_hand.h"
#include "config_difference.h"
#include "segment.h"
#include "tables.h"

struct weir_change_costs_of { // input of the functions; borrowed
	const struct weir_tables *tables; // NULL before the first dataplane
	const struct weir_segment *segment; // NULL if no dataplane is attached
	const struct weir_config *from, *to; // the configurations that were compared
	weir_keeping_canary_fn keeping_canary; // NULL = there are no canaries
	const void *canaries; // context of keeping_canary
};

struct weir_restart_cost { // cost of a restart of the dataplane, in flows
	uint64_t open; // open flows
	uint64_t lost; // open flows that are probably lost: they get other backends, or no backend
	// Number of the lost flows that are lost only if they began before the last change of
	// backends or weights.
	uint64_t older;
	bool recount; // not all flows are counted yet: the numbers are lower limits
};

// Returns the cost of a restart of the dataplane now, with unchanged configuration. A flow
// continues if its service has the policy maglev, its backend is in the selection, it began after
// the last change of backends or weights, and it was not spilled (weir_tables_former_flows). Some
// other flows get the same backend again by chance, so `lost` is an upper limit.
struct weir_restart_cost weir_restart_cost(
	const struct weir_tables *tables, const struct weir_segment *segment);
// Writes the cost of a restart as text, such as "the restart breaks up to 21 of 40 open flows, 9 of
// them only if they began before the last change of backends or weights". seed: hash_seed changes,
// so all flows are lost. Returns text.
const char *weir_restart_cost_text(
	const struct weir_restart_cost *cost, bool seed, char *text, size_t bytes);

// Sets the costs of all changes of a difference. If no dataplane is attached, a cost lists only the
// manual settings that are discarded; without tables, no cost is set. Call this function before the
// changes are applied. Returns 0 or -ENOMEM (some costs are not set).
int weir_change_costs(const struct weir_change_costs_of *of, struct weir_difference *difference);
// Gets the cost of a restart of the dataplane after which the configuration with these differences
// is in use. A dataplane must be attached. Returns 0 or -ENOMEM.
int weir_change_restart_cost(const struct weir_change_costs_of *of,
	const struct weir_difference *difference, struct weir_restart_cost *ret);
