// SPDX-License-Identifier: BSD-3-Clause
//
// The way back: a backend answers from the VIP, by the interface that leads to it. Whether this
// host lets such packets in, which rp_filter may forbid.
//
// Threads: one. No capability needed.
#pragma once

#include <net/if.h>
#include <stdbool.h>

#include "config.h"
#include "data_path_netlink.h"

// Asks the kernel about a packet from an IPv4 VIP to an address of this host. Cost: two requests.
// *device: where it would arrive, if it can be known. Returns false where nothing speaks against
// it; always for IPv6, which has no such filter.
bool weir_data_path_return_refused(struct weir_data_path_netlink *kernel,
	const struct weir_address *backend, const struct weir_address *vip,
	const struct weir_address *local, char device[IF_NAMESIZE]);
