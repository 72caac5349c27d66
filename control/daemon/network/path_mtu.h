// SPDX-License-Identifier: BSD-3-Clause
//
// Path MTU: receives ICMP messages of routers about tunnel packets that are too large for the path
// to a backend ("fragmentation needed", "packet too big"). Routers send these messages to the outer
// source address, which is an address of this host. Messages can be forged, so the caller must
// ignore a message unless it quotes a packet to a configured backend from a source address that is
// in use. weir_path_mtu_next applies a lower bound to the reported MTU.
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

// Contents of a message about a tunnel packet.
struct weir_path_mtu_report {
	struct weir_address backend; // destination of the quoted outer packet
	struct weir_address source; // source of the quoted outer packet
	uint32_t mtu; // bytes of the outer packet; 0 = the message contains no MTU (RFC 1191, 5)
};

// Opens the sockets. Return values: see weir_icmp_open.
int weir_path_mtu_open(struct weir_icmp_sockets *ret);

// Reads the next report. budget: maximum number of messages that may still be read, for IPv4 [0]
// and IPv6 [1]; reduced by the number of messages read. Returns false if no report is queued or the
// budgets are used up.
bool weir_path_mtu_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_path_mtu_report *ret);

// Parse one message from a raw socket: an IPv4 packet, or an ICMPv6 message without IPv6 header.
// Both functions return false if the message is not about a tunnel packet.
bool weir_path_mtu_parse4(const uint8_t *packet, size_t bytes, struct weir_path_mtu_report *ret);
bool weir_path_mtu_parse6(const uint8_t *icmp, size_t bytes, struct weir_path_mtu_report *ret);

// Returns the path MTU to use after a report. now: the MTU in use. If the report contains no MTU,
// the next lower common MTU is used (RFC 1191, 7.1). The result is never above `now`. It is below
// the lower bound only if `now` is below it, too.
uint16_t weir_path_mtu_next(const struct weir_path_mtu_report *report, uint16_t now);
