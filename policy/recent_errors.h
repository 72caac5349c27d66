// SPDX-License-Identifier: BSD-3-Clause
//
// Recent errors of backends. Each error counts as an active flow. Errors that the worker detects
// are counted in WEIR_POLICY_ERROR_SLOTS time slots. Each error counts for at least seven eighths
// of the error window, and at most for the whole window. Errors that backends report come from
// weir-control (reported_errors.h). Policies with keys read reported errors at least every 250 ms
// while new flows arrive; power-of-two reads reported errors at each choice. Called by policy.c,
// window.c, flow_control.c and the policies that use loads.
//
// A backend may also report its number of requests in progress. This number includes the flows
// of all workers, all instances and other clients. weir-control writes one worker's share of this
// number to the signal of the backend (reported_share.h). If the worker has fewer flows at the
// backend than its share, the difference, times the gain of the signal, is added to the load of the
// backend until the next report. Otherwise nothing is added. Flows that later start or end on this
// worker change the load immediately.
//
// Threads: as in policy.h. Ticks are advanced by comparisons, without a division, after a pause of
// any length.
#pragma once

#include "policy_private.h"

// Starts collecting errors if client->settings.needs has WEIR_NEEDS_ERRORS; otherwise stops.
// Existing counts are kept, but expire if collecting stops.
void weir_errors_adopt(struct weir_policy_client *client, uint64_t now_ns);

// Call when now_ns >= client->tick_end_ns.
void weir_errors_tick(struct weir_policy_client *client, uint64_t now_ns);

// Remove errors that have expired at client->tick.
void weir_errors_age(const struct weir_policy_client *client, struct weir_policy_backend *backend);

void weir_errors_add(const struct weir_policy_client *client, struct weir_policy_backend *backend);

// Adopts the share of a new report; called by weir_errors_look.
void weir_errors_adopt_share(struct weir_policy_worker *worker, uint32_t id, uint64_t word);

// Read control's signal for a backend (< backend_count). Only for policies with WEIR_NEEDS_ERRORS.
// Returns whether `reported` of the backend has changed.
static inline bool weir_errors_look(struct weir_policy_worker *worker, uint32_t id) {
	uint64_t word = __atomic_load_n(&worker->cost_ns[id], __ATOMIC_RELAXED);
	struct weir_policy_backend *backend = &worker->backends[id];
	uint32_t before = backend->reported;

	if (__builtin_expect(weir_signal_is_share(word), 0)) {
		if (weir_signal_serial(word) != backend->serial) {
			weir_errors_adopt_share(worker, id, word);
		}
		return backend->reported != before;
	}
	backend->serial = 0;
	backend->reported = weir_signal_errors(word) * WEIR_SIGNAL_FLOW;
	return backend->reported != before;
}

// Returns the load: active flows, recent errors and `reported`, in units of 1 / WEIR_SIGNAL_FLOW
// flow.
static inline uint64_t weir_policy_load(
	const struct weir_policy_client *client, struct weir_policy_backend *backend) {
	if (backend->errors != 0) {
		weir_errors_age(client, backend);
	}
	return ((uint64_t)backend->active + backend->errors) * WEIR_SIGNAL_FLOW + backend->reported;
}

// Returns the load, divided by the backend's `part` in slow start, and rounded down to whole flows.
// Without rounding, while all backends have few flows, a backend would not be chosen because its
// load is higher by a fraction of a flow. Among backends with equal loads, `turns` limits the flows
// of a backend in slow start.
static inline uint64_t weir_policy_load_over_part(
	const struct weir_policy_client *client, struct weir_policy_backend *backend) {
	uint64_t load = weir_policy_load(client, backend);

	if (__builtin_expect(backend->share.part == 0, 1)) {
		return load;
	}
	return weir_policy_over_part(backend, load) / WEIR_SIGNAL_FLOW * WEIR_SIGNAL_FLOW;
}
