// SPDX-License-Identifier: BSD-3-Clause
//
// Drain sums: summarize the drains of several backends or services for replies and the audit, with
// their latest deadline.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct weir_tables;

struct weir_drain_sum { // zeroed: no drain
	uint32_t phases[WEIR_DRAIN_DROPPED + 1]; // number of drains, by enum weir_drain_phase
	uint64_t until_ns; // the latest deadline of the drains in progress
	bool endless; // at least one drain in progress has no deadline
	// Sum of the open flows that were left when the drains ended, by phase; only for KEPT and
	// DROPPED. WEIR_FLOWS_UNKNOWN = unknown.
	uint64_t left[WEIR_DRAIN_DROPPED + 1];
	// Action at the deadline for the flows of the drains in progress: enum
	// weir_config_at_deadline; -1 = not the same action for all drains.
	int at_deadline;
};

// Adds the drain of a backend or of a service to the sum. then: enum weir_config_at_deadline.
// phase: enum weir_drain_phase. until_ns: deadline; 0 = none. left: number of open flows at the end
// of the drain, as in weir_tables_end_drain.
void weir_drain_sum_add(
	struct weir_drain_sum *sum, int then, uint8_t phase, uint64_t until_ns, uint64_t left);
// Returns the latest deadline of the drains in progress; 0 = one of them has no deadline, or no
// drain is in progress.
uint64_t weir_drain_sum_deadline(const struct weir_drain_sum *sum);
// Returns the summary in the format of weir_json_drain, owned by the caller; null if there is no
// drain. The phase in the summary is the first of DRAINING, KEPT, DROPPED and DRAINED that at least
// one of the drains has.
json_t *weir_json_drains(const struct weir_drain_sum *sum, const struct weir_tables *tables);
// Returns how long the flows are still recounted after a restart of the dataplane, in milliseconds;
// null if they are not, or no dataplane is attached.
json_t *weir_json_recount(const struct weir_tables *tables);
// Appends the time until the deadline of a drain to the text in value, a buffer of
// WEIR_AUDIT_VALUE_BYTES. until_ns: CLOCK_MONOTONIC; if it is 0 (none) or has passed, nothing is
// appended.
void weir_api_append_deadline(uint64_t until_ns, char *value);
