// SPDX-License-Identifier: BSD-3-Clause
//
// The return path: a backend answers from the VIP, and its packets arrive at the interface of the
// route to the backend. Determines whether this host accepts such packets: rp_filter can drop them.
//
// Threads: one. No capability needed.
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "config.h"
#include "data_path_netlink.h"

// Returns whether the kernel would drop a packet from an IPv4 VIP to an address of this host; if
// so, *device is the interface at which the packet would arrive. Returns false if the kernel
// accepts the packet, or cannot be queried. Always returns false for IPv6, because rp_filter
// applies only to IPv4. Cost: two requests.
bool weir_data_path_return_refused(struct weir_data_path_netlink *kernel,
	const struct weir_address *backend, const struct weir_address *vip,
	const struct weir_address *local, char device[IF_NAMESIZE]);
