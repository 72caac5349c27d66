// SPDX-License-Identifier: BSD-3-Clause
//
// Checks: which backends of a configuration are checked, where, how and at what pace; and which are
// unchecked: their checks have no result (weir_health_unchecked_ms), so that their states stay.
//
// Threads: one, that of the loop.
#pragma once

#include "config.h"
#include "health.h"
#include "log.h"
#include "states.h"
#include "tables.h"

// Check the backends of this configuration and no others; a new check starts from the known state.
// Call after weir_states_configure. Returns 0 or negative errno.
int weir_checks_configure(struct weir_health *health, const struct weir_states *states,
	const struct weir_tables *tables, const struct weir_config *config);
// Check backends that are far from use less often (weir_tables_backend_is_far); tables NULL: none
// are. Call after each publication, and every second for publications by a tick.
void weir_checks_pace(struct weir_health *health, const struct weir_tables *tables);

// How long the checks of a backend have had no result, and why; 0 = it is not unchecked, and
// ret_why is untouched.
uint64_t weir_checks_unchecked_ms(
	const struct weir_health *health, uint16_t backend, char ret_why[WEIR_HEALTH_DETAIL_BYTES]);

#define WEIR_UNCHECKED_BYTES 640

struct weir_unchecked {
	uint32_t backends; // unchecked ones
	char text[WEIR_UNCHECKED_BYTES]; // if any: one line, with services and the reason at one
					 // backend
};
// The unchecked backends of a service, or of all (service < 0). tables NULL: there are none.
void weir_checks_unchecked(const struct weir_health *health, const struct weir_tables *tables,
	int service, struct weir_unchecked *ret);

// Add the number of unchecked backends of each service to counts, by its id.
void weir_checks_count(const struct weir_health *health, const struct weir_tables *tables,
	uint32_t counts[WEIR_SERVICES_MAX]);

struct weir_checks_log { // zero-initialized
	uint32_t backends; // unchecked ones in the last line
	uint64_t since_ms; // when there were none before
	uint64_t logged_ms; // time of the last line
};
// Log the unchecked backends when their number changes: one line for all, at most one in
// WEIR_CHECKS_LOG_MS. Call every second.
#define WEIR_CHECKS_LOG_MS 5000u
void weir_checks_second(struct weir_checks_log *logged, const struct weir_log *log,
	const struct weir_health *health, const struct weir_tables *tables, uint64_t now_ms);
