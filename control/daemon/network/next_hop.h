// SPDX-License-Identifier: BSD-3-Clause
//
// Input and output of neighbours.h: the ports of the dataplane, and the next hops of addresses.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "config.h"
#include "layout.h"
#include "tables.h"

// A port of the dataplane. Its index in the array is the port's index in the header of the segment.
struct weir_neighbour_port {
	struct weir_port_info info;
	bool has_gateway_mac;
	uint8_t gateway_mac[6];
	struct weir_address source_ipv4; // family 0 = the kernel chooses the source
	uint8_t source_ipv4_bits; // number of low bits that vary by flow
	struct weir_address source_ipv6;
};

// The path of packets to an address.
struct weir_way {
	int port; // index of the port; -1 = none, not looked up yet, or the address is not watched
	// The kernel's route refuses packets: it is of type unreachable, prohibit or blackhole.
	bool refused;
	// Loop time since which there have been a route through the port, a source address and, if
	// the route has a gateway, the gateway's MAC address; 0 = one of these is missing now.
	uint64_t since_ms;
};

// Called with the next hop of an address: after each weir_neighbours_configure once for every
// address, as soon as the next hop is found or known to be missing, and again whenever the next hop
// changes. hop->resolved false: there is no route through a port, no source address, or no reply to
// ARP or ND. why: the reason in one line; "" if the next hop is resolved. The
// callback may call any function of neighbours.h except weir_neighbours_free.
typedef void (*weir_next_hop_fn)(void *context, const struct weir_address *address,
	const struct weir_next_hop *hop, const char *why);
