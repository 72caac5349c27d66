// SPDX-License-Identifier: BSD-3-Clause
//
// UDP probe: sends one datagram. If the check expects bytes, the first datagram of the backend must
// begin with these bytes or contain them (health_match.h). Otherwise the probe passes with any
// datagram of the backend, and also if no datagram and no ICMP error arrives before the timeout.
//
// Threads: only the event loop's thread.
#pragma once

#include "health_datagram.h"

// Starts a probe. Returns 0, or negative errno; `done` is then not called.
int weir_health_udp_start(
	uv_loop_t *loop, const struct weir_probe_params *params, struct weir_health_datagram **ret);
