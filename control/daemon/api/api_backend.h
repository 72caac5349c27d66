// SPDX-License-Identifier: BSD-3-Clause
//
// The state of a backend, for backend.show.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>
#include <stdint.h>

struct weir_backend_state;
struct weir_daemon;

// Adds two members to an object: for how long the health checks of a backend have had no result,
// and why. Both members are null if the checks have results.
void weir_json_unchecked(json_t *object, const struct weir_daemon *daemon, uint16_t backend);
// Returns the number of flows of all workers that count towards the limit of a backend. Returns
// null if the backend has no limit, or if no dataplane is attached.
json_t *weir_json_counted_flows(
	const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Returns why a backend gets no new flows, except possibly in panic mode: it is removed, drained,
// in maintenance, refusing or a lame duck. Returns NULL if none of these reasons applies.
const char *weir_backend_unusable_reason(const struct weir_backend_state *state);
// Adds to an object: the verdict and the announced state of a backend, the age and the reason of
// its health state, its reported and automatic weights, its limit, its agent, TCP statistics and
// shed, and its last report.
void weir_json_condition(
	json_t *object, const struct weir_daemon *daemon, const struct weir_backend_state *state);
