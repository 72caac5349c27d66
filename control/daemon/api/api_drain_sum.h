// SPDX-License-Identifier: BSD-3-Clause
//
// Drains in replies and in the audit: the drains of several backends or services as one, and their
// deadline.
//
// Threads: one, that of the loop.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "layout.h"

struct weir_tables;

struct weir_drain_sum { // zeroed: none
	uint32_t phases[WEIR_DRAIN_DROPPED + 1]; // numbers by enum weir_drain_phase
	uint64_t until_ns; // the last deadline
	bool endless; // a drain has no deadline
	uint64_t left[WEIR_DRAIN_DROPPED + 1]; // open flows at the end, KEPT and DROPPED only, or
					       // WEIR_FLOWS_UNKNOWN
	int at_deadline; // of those that drain: enum weir_config_at_deadline, or -1: they differ
};

// Add the drain of a backend or of a service. then: enum weir_config_at_deadline. until_ns: 0 = no
// deadline. left: see weir_tables_end_drain.
void weir_drain_sum_add(
	struct weir_drain_sum *sum, int then, uint8_t phase, uint64_t until_ns, uint64_t left);
// The last deadline of those that drain, 0 if there is none.
uint64_t weir_drain_sum_deadline(const struct weir_drain_sum *sum);
// As weir_json_drain, with the phase of those that are least far. The caller owns the result.
json_t *weir_json_drains(const struct weir_drain_sum *sum, const struct weir_tables *tables);
// Append the deadline of a drain, CLOCK_MONOTONIC, to a value of WEIR_AUDIT_VALUE_BYTES. Nothing is
// appended if there is none (0), or if it has passed.
void weir_api_append_deadline(uint64_t until_ns, char *value);
