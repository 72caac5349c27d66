// SPDX-License-Identifier: BSD-3-Clause
//
// Return path: determines whether this host accepts the answers of a backend. The source address of
// the answers is the VIP. The answers should arrive at the interface of the route to the backend,
// where rp_filter can drop them.
//
// Threads: one. No capability needed.
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "config.h"
#include "data_path_netlink.h"

// Returns whether the kernel would drop a packet from the VIP to `local`, an address of this host.
// If so, device receives the name of the interface at which the packet would arrive. Returns false
// if the kernel would accept the packet, or cannot be queried. Always returns false for IPv6,
// because rp_filter applies only to IPv4. Cost: at most two requests to the kernel.
bool weir_data_path_return_refused(struct weir_data_path_netlink *kernel,
	const struct weir_address *backend, const struct weir_address *vip,
	const struct weir_address *local, char device[IF_NAMESIZE]);
