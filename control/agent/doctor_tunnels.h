// SPDX-License-Identifier: BSD-3-Clause
//
// For weir-agent doctor: finds the tunnel devices of the kernel, and the forwarding modes that they
// decapsulate.
//
// Threads: any. No logging.
#pragma once

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#define WEIR_TUNNELS_MAX 16

struct weir_tunnel_kind;

struct weir_tunnel {
	char name[IF_NAMESIZE];
	const struct weir_tunnel_kind *kind;
};

struct weir_tunnels {
	struct weir_tunnel list[WEIR_TUNNELS_MAX];
	uint32_t count;
};

// List the tunnel devices that are up, at most WEIR_TUNNELS_MAX. Ignores devices that are down,
// because kernel modules create unused devices, such as tunl0, when they are loaded.
void weir_tunnels_read(struct weir_tunnels *ret);

// Returns the modes that at least one device decapsulates, as bits of weir_agent_forwarding. GUE
// also needs a UDP socket of the kernel (ip fou), which is not a device.
uint32_t weir_tunnels_modes(const struct weir_tunnels *tunnels);

// Returns the type of a device, as `ip -d link` shows it: "ipip", ...
const char *weir_tunnel_type(const struct weir_tunnel *tunnel);
// Returns whether a device decapsulates IPv4 packets.
bool weir_tunnel_takes_ipv4(const struct weir_tunnel *tunnel);
