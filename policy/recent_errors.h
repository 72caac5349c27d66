// SPDX-License-Identifier: BSD-3-Clause
//
// Recent errors of backends: errors seen by the worker are counted in WEIR_POLICY_ERROR_SLOTS time
// slots, so that an error counts as an active flow for at least seven eighths of the window, and at
// most all of it. Errors reported by backends come from control (reported_errors.h), and are read
// several times a second. Called by policy.c and by the policies that use loads.
//
// Threads: as policy.h. Ticks advance by comparison, after a pause of any length.
#pragma once

#include "policy_private.h"

// Start or stop collecting errors. Existing counts are kept.
void weir_errors_adopt(struct weir_policy_client *client, uint64_t now_ns);

// Call when now_ns >= client->tick_end_ns.
void weir_errors_tick(struct weir_policy_client *client, uint64_t now_ns);

// Remove expired errors at client->tick.
void weir_errors_age(const struct weir_policy_client *client, struct weir_policy_backend *backend);

void weir_errors_add(const struct weir_policy_client *client, struct weir_policy_backend *backend);

// Read control's signal for a backend (< backend_count). Only for policies with WEIR_NEEDS_ERRORS.
// Returns whether it has changed.
static inline bool weir_errors_look(struct weir_policy_worker *worker, uint32_t id) {
	uint32_t reported =
		weir_signal_errors(__atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED));
	bool changed = worker->backends[id].reported != reported;

	worker->backends[id].reported = reported;
	return changed;
}

// Active flows, recent errors, and reported ones.
static inline uint32_t weir_policy_load(
	const struct weir_policy_client *client, struct weir_policy_backend *backend) {
	if (backend->errors != 0) {
		weir_errors_age(client, backend);
	}
	return backend->active + backend->errors + backend->reported;
}
