// SPDX-License-Identifier: BSD-3-Clause
//
// Drains in replies and in the audit: a summary of the drains of several backends or services, and
// the last deadline.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct weir_tables;

struct weir_drain_sum { // zeroed: no drain
	uint32_t phases[WEIR_DRAIN_DROPPED + 1]; // number of drains in each enum weir_drain_phase
	uint64_t until_ns; // the last deadline
	bool endless; // a drain has no deadline
	uint64_t left[WEIR_DRAIN_DROPPED + 1]; // open flows at the end of drains, by phase: only
					       // KEPT and DROPPED; or WEIR_FLOWS_UNKNOWN
	int at_deadline; // enum weir_config_at_deadline of the drains in progress, or -1: the
			 // drains differ
};

// Add the drain of a backend or of a service. then: enum weir_config_at_deadline. until_ns: 0 = no
// deadline. left: see weir_tables_end_drain.
void weir_drain_sum_add(
	struct weir_drain_sum *sum, int then, uint8_t phase, uint64_t until_ns, uint64_t left);
// The last deadline of the drains in progress; 0 = no deadline.
uint64_t weir_drain_sum_deadline(const struct weir_drain_sum *sum);
// As weir_json_drain, with the first of the phases DRAINING, KEPT, DROPPED, DRAINED that a drain is
// in. The caller owns the result.
json_t *weir_json_drains(const struct weir_drain_sum *sum, const struct weir_tables *tables);
// Append the deadline of a drain, CLOCK_MONOTONIC, to a value of WEIR_AUDIT_VALUE_BYTES. Nothing is
// appended if the deadline is 0 (none) or has passed.
void weir_api_append_deadline(uint64_t until_ns, char *value);
