// SPDX-License-Identifier: BSD-3-Clause
//
// The tunnel of the data path. It consists of a TUN device for the packets of checks, policy rules
// that route these packets to the device (data_path_rules.h), and sockets that forward the packets.
// weir-control opens the tunnel before it drops its privileges, because opening the tunnel needs
// privileges. The kernel removes the device when the process closes the device or ends. Until then
// no other process can open the device: it is not persistent, has one queue, and belongs to no
// user.
//
// Threads: one; weir-control opens the tunnel before the event loop starts.
#pragma once

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config_host.h"
#include "data_path_ports.h"

// Several processes can have a tunnel in one network namespace, each with its own device, routing
// table and block of ports. This is the device of the first tunnel; further tunnels use
// weir-check1, ...
#define WEIR_DATA_PATH_DEVICE WEIR_CHECK_DEVICE
#define WEIR_DATA_PATH_TABLE 47770u // table of the first tunnel; further tunnels use 47771, ...
#define WEIR_DATA_PATH_PLACES 8u

struct weir_data_path_tunnel {
	int device; // non-blocking; -1 = no device is open
	int ipv4, ipv6; // raw sockets, which send whole packets and receive no packets; -1 = none
	// Packet socket, which sends to MAC addresses and receives nothing; -1 = packet sockets are
	// not allowed.
	int link;
	int ipv6_error; // negative errno of setting rules for IPv6; 0 = the rules are set
	uint32_t table; // routing table
	uint16_t port_first; // first port of a block of WEIR_DATA_PATH_PORTS ports
	char name[IFNAMSIZ];
};

#define WEIR_DATA_PATH_TUNNEL_NONE \
	((struct weir_data_path_tunnel){.device = -1, .ipv4 = -1, .ipv6 = -1, .link = -1})

// Open a tunnel. uid: user whose connections are routed through the tunnel. Needs CAP_NET_ADMIN and
// CAP_NET_RAW.
// Returns 0, or negative errno with one line in why and no tunnel open.
int weir_data_path_tunnel_open(
	uid_t uid, struct weir_data_path_tunnel *ret, char *why, size_t why_bytes);
// Does nothing if no tunnel is open.
void weir_data_path_tunnel_close(struct weir_data_path_tunnel *tunnel);
