// SPDX-License-Identifier: BSD-3-Clause
//
// UDP probe: sends one datagram. If the check expects bytes, the first datagram of the backend must
// contain them. Otherwise the probe passes with any datagram of the backend, and also if neither a
// datagram nor an ICMP error arrives until the timeout.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "health_probe.h"

struct weir_health_udp;

// Starts a probe. Returns 0, or negative errno; `done` is then not called.
int weir_health_udp_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_udp **ret);

// Cancel the probe without calling done. Its libuv handles are closed in the next iterations of
// the loop.
void weir_health_udp_cancel(struct weir_health_udp *udp);
