// SPDX-License-Identifier: BSD-3-Clause
//
// How a backend is, as backend.show has it.
//
// Threads: one, that of the loop.
#pragma once

#include <jansson.h>

struct weir_backend_state;
struct weir_daemon;

// Add its state, since when and why, the weights that it has reported, and its last report to an
// object.
void weir_json_condition(
	json_t *object, const struct weir_daemon *daemon, const struct weir_backend_state *state);
