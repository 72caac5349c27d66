// SPDX-License-Identifier: BSD-3-Clause
//
// The tunnel of the data path: a TUN device for the packets of checks, rules that route them there
// (data_path_rules.h), and raw sockets that send them encapsulated. All of this needs privileges;
// weir-control opens it before it drops them.
//
// The device is removed when the process ends. No other process can open it meanwhile: it is not
// persistent, has one queue, and belongs to no user.
//
// Threads: before the event loop starts.
#pragma once

#include <net/if.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "config_host.h"
#include "data_path_ports.h"

// Several processes may have a tunnel in one network namespace, each with its own device, routing
// table and block of ports.
#define WEIR_DATA_PATH_DEVICE WEIR_CHECK_DEVICE // of the first one; weir-check1, ... of the others
#define WEIR_DATA_PATH_TABLE 47770u // of the first one; 47771, ... of the others
#define WEIR_DATA_PATH_PLACES 8u

struct weir_data_path_tunnel {
	int device; // non-blocking; -1 = none is open
	int ipv4, ipv6; // raw sockets, which send whole packets and receive nothing; -1 = none
	int ipv6_error; // negative errno of setting rules for IPv6; 0 = they are set
	uint32_t table; // routing table
	uint16_t port_first; // of the block of WEIR_DATA_PATH_PORTS
	char name[IFNAMSIZ];
};

#define WEIR_DATA_PATH_TUNNEL_NONE \
	((struct weir_data_path_tunnel){.device = -1, .ipv4 = -1, .ipv6 = -1})

// uid: owner of the connections to route there. Needs CAP_NET_ADMIN and CAP_NET_RAW.
// Returns 0, or negative errno with one line in why and nothing open.
int weir_data_path_tunnel_open(
	uid_t uid, struct weir_data_path_tunnel *ret, char *why, size_t why_bytes);
void weir_data_path_tunnel_close(struct weir_data_path_tunnel *tunnel); // allowed without a tunnel
