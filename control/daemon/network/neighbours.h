// SPDX-License-Identifier: BSD-3-Clause
//
// Neighbours: finds the next hop of every backend address: which port, which MAC address, which
// outer source. Asks the kernel by rtnetlink (routes, neighbours, links) and follows its changes.
// Ports with a gateway_mac need no neighbour entry, and no kernel at all when they have a source.
//
// Needs no capability: to have the kernel resolve a neighbour, it sends the backend an empty UDP
// datagram to port 9 (discard).
//
// A next hop once known is kept until the kernel has had WEIR_NEIGHBOURS_HOLD_MS to find it again:
// a flushed or stale entry does not interrupt forwarding, nor does a restart of control.
//
// Threads: one, that of the loop. No globals, no logging. No function calls back; callbacks come
// from the loop alone.
#pragma once

#include <uv.h>

#include "next_hop.h"
#include "path_mtu.h"

#define WEIR_NEIGHBOURS_HOLD_MS 3000
#define WEIR_NEIGHBOURS_PATH_MTU_MS 600000 // what a router told is forgotten (RFC 1191, 6.3)

struct weir_neighbours;

// Opens the netlink sockets in the caller's network namespace.
// Returns 0 or negative errno. The loop must outlive the handles: after weir_neighbours_free, run
// it until uv_run returns 0.
int weir_neighbours_create(
	uv_loop_t *loop, weir_next_hop_fn on_next_hop, void *context, struct weir_neighbours **ret);

// Watch these addresses (in any order, repeated ones count once) over these ports (copied). What
// is known of addresses that stay is kept. All or nothing. Returns 0, -EINVAL, -ENOMEM.
int weir_neighbours_configure(struct weir_neighbours *n, const struct weir_neighbour_port *ports,
	uint32_t port_count, const struct weir_address *addresses, uint32_t count);

// Take the path MTU of backends from these sockets (path_mtu.h), a few messages a tick. They are
// the module's from here on.
void weir_neighbours_listen(struct weir_neighbours *n, struct weir_path_mtu_sockets *sockets);

// No callback comes any more; handles close in the next iterations of the loop. NULL is fine.
void weir_neighbours_free(struct weir_neighbours *n);
