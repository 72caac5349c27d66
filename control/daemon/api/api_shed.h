// SPDX-License-Identifier: BSD-3-Clause
//
// Describes the last shed of a backend, for backend.show and the audit.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>

struct weir_backend_state;
struct weir_daemon;

// Returns the last shed of a backend as JSON, or null if there was none.
json_t *weir_json_shed(const struct weir_daemon *daemon, const struct weir_backend_state *state);
// Writes the state of the last shed of a backend as text. value: buffer of WEIR_AUDIT_VALUE_BYTES;
// unchanged if there was no shed.
void weir_api_shed_describe(
	const struct weir_daemon *daemon, const struct weir_backend_state *state, char *value);
