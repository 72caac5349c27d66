// SPDX-License-Identifier: BSD-3-Clause
//
// Checks: determines which backends of a configuration are checked, with which check, at which
// address and interval. Also lists the unchecked backends: the checks of an unchecked backend have
// no result (weir_health_unchecked_ms), so its state does not change.
//
// Threads: only the event loop's thread.
#pragma once

#include "config.h"
#include "health.h"
#include "log.h"
#include "states.h"
#include "tables.h"

// Check the backends of this configuration and no others. A new health check starts with the
// verdict that the backend has in states.h; a new agent-check starts with UNKNOWN. Call after
// weir_states_configure. Returns 0 or negative errno.
int weir_checks_configure(struct weir_health *health, const struct weir_states *states,
	const struct weir_tables *tables, const struct weir_config *config);
// Sets the intervals of the checks. Far backends, which will probably not be used soon
// (weir_tables_backend_is_far), are checked less often. tables NULL: nothing changes. Call after
// each publication for which weir_tables_far_changed returns true, and every second, because
// weir_tables_tick publishes as well.
void weir_checks_pace(struct weir_health *health, const struct weir_tables *tables);

// Returns how long the checks of a backend have had no result. ret_why gets the reason. If the
// checks have results, returns 0, and does not change ret_why.
uint64_t weir_checks_unchecked_ms(
	const struct weir_health *health, uint16_t backend, char ret_why[WEIR_HEALTH_DETAIL_BYTES]);

#define WEIR_UNCHECKED_BYTES 640

struct weir_unchecked {
	uint32_t backends; // number of unchecked backends
	// If backends > 0: one line with the first services and the reason for one of the backends.
	char text[WEIR_UNCHECKED_BYTES];
};
// Counts and describes the unchecked backends of a service, or of all services (service < 0).
// tables NULL: there are no backends.
void weir_checks_unchecked(const struct weir_health *health, const struct weir_tables *tables,
	int service, struct weir_unchecked *ret);

// Add the number of unchecked backends of each service to counts, indexed by service id.
void weir_checks_count(const struct weir_health *health, const struct weir_tables *tables,
	uint32_t counts[WEIR_SERVICES_MAX]);

struct weir_checks_log { // zero-initialized
	uint32_t backends; // unchecked backends in the last log line
	// time of the first log line about unchecked backends after all checks had results
	uint64_t since_ms;
	uint64_t logged_ms; // time of the last log line
};
// Logs the unchecked backends when their number has changed: one line for all backends, and at most
// one line per WEIR_CHECKS_LOG_MS. Call every second.
#define WEIR_CHECKS_LOG_MS 5000u
void weir_checks_second(struct weir_checks_log *logged, const struct weir_log *log,
	const struct weir_health *health, const struct weir_tables *tables, uint64_t now_ms);
