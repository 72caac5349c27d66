// SPDX-License-Identifier: BSD-3-Clause
//
// Functions that the handlers of drains share: api_change.c (one backend), api_host.c (all backends
// of a host) and api_binds.c (binds).
//
// Threads: the thread of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api.h"

struct weir_backend_state;
struct weir_daemon;

// Compute the deadline of a drain from the argument interval_ms. *ret_until_ns: CLOCK_MONOTONIC; 0
// = no deadline. On an error, fails the call and returns false.
bool weir_api_deadline(struct weir_api_call *call, uint64_t *ret_until_ns);
// Sets a backend to ready, discards the state that the backend announced, and ends its ejection.
// Does not publish the change.
void weir_api_make_ready(struct weir_daemon *daemon, uint16_t backend);
// Returns a list of at most one warning: that a change leaves the service of a backend without an
// eligible backend, or only with backups. Call this function after the change was published.
json_t *weir_json_service_warnings(
	const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Returns whether a change that takes a backend out of service moves its connections, because the
// dataplane was just restarted. Call this function after the change was published.
bool weir_api_moves_flows(const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Returns the warning that connections move. object: the backend or host that they leave.
json_t *weir_json_moves_flows(const char *object);
// Returns a list of these warnings about a change of one backend. takes_out: whether the change
// takes the backend out of service; if false, the list is empty. Call this function after the
// change was published.
json_t *weir_json_warnings(
	const struct weir_daemon *daemon, const struct weir_backend_state *state, bool takes_out);
