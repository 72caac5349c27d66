// SPDX-License-Identifier: BSD-3-Clause
//
// Unreachable: receives ICMP errors from hosts that do not accept tunnel packets. A host sends such
// an error if it does not decapsulate (it has no tunnel device, or its decapsulating program was
// killed), or if its firewall rejects tunnel packets. The error is sent to the outer source
// address, which is an address of this host. For UDP with direct server return, nothing else shows
// that packets are lost. Linux sends no error about GUE over IPv6, because it drops UDP packets
// with the checksum 0 that no socket accepts. With forwarding l2, a host sends errors to the
// client.
// ICMP errors can be forged. This module returns an error only if its sender is the outer
// destination of the quoted packet (not a router), and if the quoted packet is a tunnel packet with
// the addresses and ports of a flow. The caller checks that the dataplane sends such packets.
//
// Threads: only the event loop's thread. No globals, no logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "icmp_sockets.h"

// Reasons of an ICMP error. X(NAME, "text")
#define WEIR_UNREACHABLE_KINDS(X) \
	X(PROTOCOL, "protocol unreachable") /* no tunnel module for the packet */ \
	X(PORT, "port unreachable") /* no GUE socket, or no tunnel device */ \
	X(PROHIBITED, "prohibited") /* refused by a firewall */ \
	X(HOST, "unreachable")

enum weir_unreachable_kind {
#define X(name, text) WEIR_UNREACHABLE_##name,
	WEIR_UNREACHABLE_KINDS(X)
#undef X
};

// Contents of an ICMP error about a tunnel packet.
struct weir_unreachable_report {
	uint8_t kind; // reason, enum weir_unreachable_kind
	uint8_t protocol; // protocol of the flow: IPPROTO_TCP, IPPROTO_UDP
	uint16_t client_port, vip_port;
	uint32_t bytes; // length of the quoted outer packet, from its IP header
	struct weir_forwarding forwarding; // forwarding mode of the quoted packet
	struct weir_address host; // sender of the message; destination of the quoted outer packet
	struct weir_address source; // source of the quoted outer packet
	struct weir_address client, vip; // addresses of the quoted inner packet
};

// Opens the sockets. Return values: see weir_icmp_open.
int weir_unreachable_open(struct weir_icmp_sockets *ret);

// Reads the next report. budget and return value: see weir_icmp_receive.
bool weir_unreachable_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_unreachable_report *ret);

// Parses one message. Returns false if the message does not quote a tunnel packet of a flow, or if
// the sender of the message is not the outer destination of the quoted packet.
bool weir_unreachable_parse(
	const struct weir_icmp_message *message, struct weir_unreachable_report *ret);

// Returns a hash of the flow in the quoted packet, computed without a secret key.
uint32_t weir_unreachable_flow(const struct weir_unreachable_report *report);

const char *weir_unreachable_text(enum weir_unreachable_kind kind);
