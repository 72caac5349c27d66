// SPDX-License-Identifier: BSD-3-Clause
//
// Kernel: reads routes, neighbours and interfaces through netlink and ethtool ioctls. Changes no
// settings and needs no privileges.
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
	unsigned int index; // index of the interface
	// the gateway, which can have another family than the destination; or the destination
	// itself if it is on the link
	struct weir_address next_hop;
	struct weir_address source; // family 0 = unknown
	uint32_t mtu, advmss; // route metrics; 0 = not set
};

// Look up the route to an address. Returns 0, or negative errno: -ENETUNREACH or -EHOSTUNREACH (no
// route, or an unreachable route), -EACCES (a prohibit route), -EINVAL (a blackhole route), ...
int weir_kernel_route(const struct weir_address *destination, struct weir_kernel_route *ret);

// Reads an entry of the neighbour table. index: index of the interface. mac: if not NULL, gets the
// MAC address, or zeros if the kernel has none. Returns the state of the entry, NUD_* of
// <linux/neighbour.h>, or negative errno: -ENOENT (no entry), ...
int weir_kernel_neighbour(const struct weir_address *address, unsigned int index, uint8_t mac[6]);

// Reads the first address of this family (4 or 6) on an interface, except link-local addresses of
// IPv6. Returns 0, -EADDRNOTAVAIL (no such address), or another negative errno. After an error *ret
// is unchanged.
int weir_kernel_address(const char *interface, int family, struct weir_address *ret);

// Returns whether an interface has this address. Returns true if the addresses cannot be read.
bool weir_kernel_has_address(const struct weir_address *address);

// Returns whether an ethtool flag, such as ETH_FLAG_LRO, is set on an interface: 1, 0 or negative
// errno.
int weir_kernel_flag(const char *interface, uint32_t flag);
// Returns whether an ethtool feature, such as "rx-gro-hw", is on: 1 (on), WEIR_KERNEL_FIXED (on,
// and cannot be switched off), 0 (off), or negative errno (-ENOENT if there is no such feature).
#define WEIR_KERNEL_FIXED 2
int weir_kernel_feature(const char *interface, const char *name);
// Read the name of an interface's driver. Returns 0 or negative errno.
int weir_kernel_driver(const char *interface, char *ret, size_t bytes);

// Read the MTU of an interface. Returns the MTU or negative errno.
int weir_kernel_mtu(const char *interface);
// Read the maximum number of combined queues of an interface. Returns the number, or negative errno
// if it is unknown.
int weir_kernel_queues_most(const char *interface);
