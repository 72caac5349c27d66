// SPDX-License-Identifier: BSD-3-Clause
//
// Path MTU: receives ICMP messages of routers about tunnel packets that are too large for the path
// to a backend ("fragmentation needed", "packet too big"). Routers send these messages to the outer
// source address, which is an address of this host. Messages can be forged. Therefore a message is
// ignored unless it quotes a packet to a configured backend, from a source address that is in use.
// The MTU also has a lower bound.
//
// Threads: only the event loop's thread. No globals, no logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "icmp_sockets.h"

#define WEIR_PATH_MTU_MIN4 576 // RFC 791: accepted by every host
#define WEIR_PATH_MTU_MIN6 1280 // RFC 8200, 5; RFC 8201, 4

// Contents of a message.
struct weir_path_mtu_report {
	struct weir_address backend; // destination of the quoted outer packet
	struct weir_address source; // source of the quoted outer packet
	uint32_t mtu; // bytes of the outer packet; 0 = the message contains no MTU (RFC 1191, 5)
};

// Opens the sockets with weir_icmp_open, and returns its result.
int weir_path_mtu_open(struct weir_icmp_sockets *ret);

// Reads the next report. Returns false if no report is queued or the budgets are used up. budget:
// maximum number of messages to read, of IPv4 and of IPv6; reduced by the number of messages read.
bool weir_path_mtu_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_path_mtu_report *ret);

// These functions parse one message from a raw socket: an IPv4 packet, or an ICMPv6 message without
// IPv6 header. They return false if the message is not about a tunnel packet.
bool weir_path_mtu_parse4(const uint8_t *packet, size_t bytes, struct weir_path_mtu_report *ret);
bool weir_path_mtu_parse6(const uint8_t *icmp, size_t bytes, struct weir_path_mtu_report *ret);

// Returns the MTU after a report. now: the MTU in use. If the report contains no MTU, the result is
// the next lower common MTU (RFC 1191, 7.1). The result is never below the lower bound. If the
// reported MTU is not lower than `now`, the result is `now`.
uint16_t weir_path_mtu_next(const struct weir_path_mtu_report *report, uint16_t now);
