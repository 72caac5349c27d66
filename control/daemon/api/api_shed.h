// SPDX-License-Identifier: BSD-3-Clause
//
// The shed of a backend, for backend.show and the audit.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>

struct weir_backend_state;
struct weir_daemon;

// Returns the last shed of a backend, or null if there is none.
json_t *weir_json_shed(const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Describes the last shed of a backend (value: buffer of WEIR_AUDIT_VALUE_BYTES; not changed if
// there is no shed).
void weir_api_shed_describe(
	const struct weir_daemon *daemon, const struct weir_backend_state *state, char *value);
