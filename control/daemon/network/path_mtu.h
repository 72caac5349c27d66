// SPDX-License-Identifier: BSD-3-Clause
//
// Path MTU: routers on the way to a backend say that our tunnel packets do not fit ("fragmentation
// needed", "packet too big"). The messages go to the outer source, an address of this host; raw
// ICMP sockets get a copy of them, whatever the port's driver. Anyone can forge one, so it must
// quote a packet from a source that we use to a backend that we have, and the MTU is bounded below.
//
// Threads: one, that of the loop. No globals, no logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_PATH_MTU_MIN4 576 // RFC 791: what every host takes
#define WEIR_PATH_MTU_MIN6 1280 // RFC 8200, 5; RFC 8201, 4

struct weir_path_mtu_sockets {
	int ipv4, ipv6; // -1 = none
};

// What a message says.
struct weir_path_mtu_report {
	struct weir_address backend; // destination of the quoted outer packet
	struct weir_address source; // its source
	uint32_t mtu; // bytes of the outer packet; 0 = not said (RFC 1191, 5)
};

// Open the sockets; takes CAP_NET_RAW. Returns 0 or negative errno with no socket open.
int weir_path_mtu_open(struct weir_path_mtu_sockets *ret);
void weir_path_mtu_close(struct weir_path_mtu_sockets *sockets); // fine when there are none

// The next report, or false: none waits. Reads at most so many messages as the budgets say, IPv4's
// and IPv6's, and takes what it has read off them.
bool weir_path_mtu_receive(const struct weir_path_mtu_sockets *sockets, unsigned int budget[2],
	struct weir_path_mtu_report *ret);

// Read one message: an IPv4 packet, or ICMPv6 without its IPv6 header, as raw sockets give them.
// False: it says nothing about a tunnel packet.
bool weir_path_mtu_parse4(const uint8_t *packet, size_t bytes, struct weir_path_mtu_report *ret);
bool weir_path_mtu_parse6(const uint8_t *icmp, size_t bytes, struct weir_path_mtu_report *ret);

// The MTU that a report makes of the one in use: bounded below; without a number the next common
// one (RFC 1191, 7.1). Not below `now` = it changes nothing.
uint16_t weir_path_mtu_next(const struct weir_path_mtu_report *report, uint16_t now);
