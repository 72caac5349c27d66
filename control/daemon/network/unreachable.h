// SPDX-License-Identifier: BSD-3-Clause
//
// Unreachable: hosts report that they do not accept tunnel packets. A host without decapsulation
// (no tunnel device, a program that was killed) or with a firewall that rejects them answers with
// an ICMP error to the outer source, an address of this host. Direct server return has no other
// sign of it for UDP.
//
// The messages can be forged. A message counts here only if the host itself sent it (not a router),
// and if it quotes a tunnel packet with the addresses and ports of a flow. The caller checks that
// we send such packets.
//
// Threads: one, that of the loop. No globals, no logging.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "icmp_sockets.h"

// X(NAME, "text")
#define WEIR_UNREACHABLE_KINDS(X) \
	X(PROTOCOL, "protocol unreachable") /* nothing decapsulates */ \
	X(PORT, "port unreachable") /* a tunnel module, but no device for these packets */ \
	X(PROHIBITED, "prohibited") /* a firewall */ \
	X(HOST, "unreachable")

enum weir_unreachable_kind {
#define X(name, text) WEIR_UNREACHABLE_##name,
	WEIR_UNREACHABLE_KINDS(X)
#undef X
};

// Content of a message.
struct weir_unreachable_report {
	uint8_t kind; // enum weir_unreachable_kind
	uint8_t protocol; // of the flow: IPPROTO_TCP, IPPROTO_UDP
	uint16_t client_port, vip_port;
	uint32_t bytes; // of the quoted outer packet, by its header
	struct weir_address host; // sent the message; destination of the quoted outer packet
	struct weir_address source; // of the quoted outer packet
	struct weir_address client, vip; // of the quoted inner packet
};

// Open the sockets, as weir_icmp_open.
int weir_unreachable_open(struct weir_icmp_sockets *ret);

// Read the next report. As weir_icmp_receive.
bool weir_unreachable_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_unreachable_report *ret);

// Parse one message. Returns false if it is not about a tunnel packet with a flow, or if the host
// did not send it.
bool weir_unreachable_parse(
	const struct weir_icmp_message *message, struct weir_unreachable_report *ret);

// A hash of the flow. Not keyed.
uint32_t weir_unreachable_flow(const struct weir_unreachable_report *report);

const char *weir_unreachable_text(enum weir_unreachable_kind kind);
