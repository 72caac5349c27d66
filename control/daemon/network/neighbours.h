// SPDX-License-Identifier: BSD-3-Clause
//
// Neighbours: finds the next hop of every backend address: port, MAC address and outer source
// address. Reads the kernel's routes, neighbours and links through rtnetlink, and subscribes to
// their changes. A port with a gateway_mac needs no neighbour entry. The first port with a
// gateway_mac and a source address is used for addresses that the kernel does not route to a port.
// To make the kernel resolve a neighbour, this module sends an empty UDP datagram to port 9
// (discard) of the backend. This needs no capability.
// A next hop that can no longer be resolved is kept for WEIR_NEIGHBOURS_HOLD_MS, so that the kernel
// has time to resolve it again. Forwarding therefore continues when a neighbour entry is flushed or
// becomes stale, or when weir-control is restarted.
//
// Threads: only the event loop's thread. No globals, no logging. Callbacks are called from the
// loop, never within a function of this module.
#pragma once

#include <uv.h>

#include "icmp_sockets.h"
#include "next_hop.h"

#define WEIR_NEIGHBOURS_HOLD_MS 3000
#define WEIR_NEIGHBOURS_PATH_MTU_MS 600000 // expiry of a path MTU (RFC 1191, 6.3)

struct weir_neighbours;

// Creates the module, without watched addresses. Opens netlink sockets in the network namespace of
// the caller. on_next_hop: called with each change of a next hop. loop: must outlive the handles:
// after weir_neighbours_free, run the loop until uv_run returns 0. Returns 0 or negative errno.
int weir_neighbours_create(
	uv_loop_t *loop, weir_next_hop_fn on_next_hop, void *context, struct weir_neighbours **ret);

// Watches these addresses on these ports, and no others. addresses: in any order, may contain
// duplicates. Both arrays are copied. Addresses that were already watched keep their state. Returns
// 0, -EINVAL or -ENOMEM; after an error nothing has changed.
int weir_neighbours_configure(struct weir_neighbours *n, const struct weir_neighbour_port *ports,
	uint32_t port_count, const struct weir_address *addresses, uint32_t count);

// Returns the current path of packets to a watched address, regardless of the hold time. For
// another address, returns the port -1.
struct weir_way weir_neighbours_way(
	const struct weir_neighbours *n, const struct weir_address *address);

// Finds the next hop of an address that is not watched, from the kernel's route and the next hops
// of watched addresses. Sends no ARP or ND request. Returns whether the next hop is resolved. Also
// returns false for a watched address, if a lookup failed, and if there were too many lookups in
// the current tick. *ret may be set even if the result is false.
bool weir_neighbours_find(
	struct weir_neighbours *n, const struct weir_address *address, struct weir_next_hop *ret);

// Starts to read reports of path MTUs (path_mtu.h) from these sockets, a limited number of messages
// per tick. Takes ownership of the sockets.
void weir_neighbours_listen(struct weir_neighbours *n, struct weir_icmp_sockets *sockets);

// Free everything. No more callbacks are called. The libuv handles are closed in the next
// iterations of the loop. NULL is allowed.
void weir_neighbours_free(struct weir_neighbours *n);
