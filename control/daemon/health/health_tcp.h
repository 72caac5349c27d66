// SPDX-License-Identifier: BSD-3-Clause
//
// TCP probe: passes if the backend accepts the connection. The probe then resets the connection.
//
// Threads: only the event loop's thread.
#pragma once

#include "health_stream.h"

// Starts a probe. Returns 0, or negative errno; `done` is then not called.
int weir_health_tcp_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_stream **ret);
