// SPDX-License-Identifier: BSD-3-Clause
//
// Ping probes: send an ICMP echo request, and pass when the reply arrives. All probes share one
// socket of each family. A reply belongs to a probe if it has the probe's sequence number and
// random bytes, and comes from the probe's address.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "health_probe.h"
#include "ping_sockets.h"

struct weir_health_pings; // the sockets, and the probes that wait for replies
struct weir_health_ping; // a probe

// Takes ownership of the sockets, and sets *sockets to WEIR_PING_SOCKETS_NONE. Returns 0, or
// negative errno with the sockets unchanged.
int weir_health_pings_create(
	uv_loop_t *loop, struct weir_ping_sockets *sockets, struct weir_health_pings **ret);
// Frees the sockets; all probes must have ended. The libuv handles are closed in the next
// iterations of the loop. NULL is allowed.
void weir_health_pings_free(struct weir_health_pings *pings);

// Starts a probe. pings: NULL = no sockets. Without a socket of the family, the outcome is UNKNOWN.
// Returns 0, or negative errno; `done` is then not called.
int weir_health_ping_start(uv_loop_t *loop, struct weir_health_pings *pings,
	const struct weir_probe_params *params, struct weir_health_ping **ret);

// Cancel the probe without calling done. Its libuv handle is closed in the next iteration of the
// loop.
void weir_health_ping_cancel(struct weir_health_ping *ping);
