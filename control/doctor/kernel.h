// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel: reads routes, neighbours and interfaces over netlink and the ioctls of ethtool. Changes
// nothing; needs no privilege.
//
// Threads: any. No logging.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "config.h"

struct weir_kernel_route {
	uint8_t type; // RTN_UNICAST, RTN_LOCAL, RTN_UNREACHABLE, ...
	char interface[IF_NAMESIZE]; // "" = none
	unsigned int index; // of the interface
	struct weir_address next_hop; // the destination itself if it is on the link
	struct weir_address source; // family 0 = unknown
	uint32_t mtu, advmss; // metrics; 0 = none
};

// The route to an address. Returns 0, or negative errno: -ENETUNREACH and -EHOSTUNREACH: no route,
// or an unreachable one; -EINVAL: a blackhole.
int weir_kernel_route(const struct weir_address *destination, struct weir_kernel_route *ret);

// State of a neighbour, NUD_* of <linux/neighbour.h>. Returns it or negative errno: -ENOENT.
int weir_kernel_neighbour(const struct weir_address *address, unsigned int index);

// The first address of a family that an interface has, other than link-local ones. Returns 0,
// -EADDRNOTAVAIL, or another negative errno; *ret is untouched then.
int weir_kernel_address(const char *interface, int family, struct weir_address *ret);

// Whether an interface has an ethtool flag, such as ETH_FLAG_LRO. Returns 1, 0 or negative errno.
int weir_kernel_flag(const char *interface, uint32_t flag);
// Whether a named feature is on ("rx-gro-hw"): 1, WEIR_KERNEL_FIXED if it is on and cannot be
// switched off, 0, or negative errno; -ENOENT: no such feature.
#define WEIR_KERNEL_FIXED 2
int weir_kernel_feature(const char *interface, const char *name);
// Name of the driver. Returns 0 or negative errno.
int weir_kernel_driver(const char *interface, char *ret, size_t bytes);

// MTU, or negative errno.
int weir_kernel_mtu(const char *interface);
// Maximum number of combined queues, or negative errno: unknown.
int weir_kernel_queues_most(const char *interface);
