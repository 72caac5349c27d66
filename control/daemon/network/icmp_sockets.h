// SPDX-License-Identifier: BSD-3-Clause
//
// ICMP sockets: raw sockets that receive a copy of each ICMP message to this host, regardless of
// the port driver. A filter in the kernel discards unrelated messages before they reach the socket
// buffers. Any host that can send packets to this host can forge messages, so callers must validate
// messages.
//
// Threads: only the event loop's thread. No globals, no logging.
#pragma once

#include <linux/filter.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_ICMP_BYTES 8 // length of the ICMP header
#define WEIR_ICMP_MESSAGE_BYTES 2048 // maximum number of bytes read of a message

struct weir_icmp_sockets {
	int ipv4, ipv6; // -1 = none
};

struct weir_icmp_filter {
	const struct sock_filter *code;
	uint16_t instructions;
};

// An ICMPv4 message with its IPv4 header, or an ICMPv6 message without IPv6 header.
struct weir_icmp_message {
	uint8_t family; // 4 or 6
	struct weir_address from; // ICMPv6: source address of the message
	size_t bytes;
	// ICMPv4: the caller must check the checksum, which covers the whole message. ICMPv6: the
	// kernel has checked it.
	uint8_t data[WEIR_ICMP_MESSAGE_BYTES];
};

// Opens the sockets, each with its filter; this needs CAP_NET_RAW. On a host without IPv6, opens
// only the IPv4 socket. Returns 0, or negative errno with no socket open.
int weir_icmp_open(const struct weir_icmp_filter *ipv4, const struct weir_icmp_filter *ipv6,
	struct weir_icmp_sockets *ret);
void weir_icmp_close(struct weir_icmp_sockets *sockets); // allowed if no sockets are open

// Reads the next message. budget: maximum number of messages that may still be read, for IPv4 [0]
// and IPv6 [1]; this function reduces the budget of the message's family by one. Returns false if
// no message can be read, or if the budgets are used up.
bool weir_icmp_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_icmp_message *ret);

// Returns whether the checksum of an ICMPv4 message is correct.
bool weir_icmp_checksum_good(const uint8_t *icmp, size_t bytes);

// These functions read big-endian values from a message.
static inline uint16_t weir_icmp_get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static inline uint32_t weir_icmp_get32(const uint8_t *at) {
	return (uint32_t)weir_icmp_get16(at) << 16 | weir_icmp_get16(at + 2);
}
