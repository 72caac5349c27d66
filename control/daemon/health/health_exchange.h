// SPDX-License-Identifier: BSD-3-Clause
//
// Exchange: a TCP probe that sends bytes (no bytes if the server sends first), and compares the
// answer with the expected bytes. An answer is used even if the connection is reset after it. At
// its end, the probe resets the connection.
//
// With match "prefix", the probe fails at the first byte that differs. With "substring", the probe
// fails at the end of the connection, after WEIR_HEALTH_EXCHANGE_BYTES, or at the timeout. The
// answer is not stored, except its first bytes for the detail.
//
// Threads: only the event loop's thread.
#pragma once

#include "health_stream.h"

#define WEIR_HEALTH_EXCHANGE_BYTES 65536 // the probe reads no more after this number of bytes

// Starts a probe of a check that expects bytes. Returns 0, or negative errno; `done` is then not
// called.
int weir_health_exchange_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_stream **ret);
