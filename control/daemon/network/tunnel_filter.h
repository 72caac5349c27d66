// SPDX-License-Identifier: BSD-3-Clause
//
// Socket filters for ICMP errors that quote a packet to a backend.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "icmp_sockets.h"

#define WEIR_TUNNEL_FILTER_MAX 32

struct weir_tunnel_filter {
	struct sock_filter instruction[WEIR_TUNNEL_FILTER_MAX];
	uint16_t count;
};

// Makes a filter for ICMP messages. head: the first instructions; they may refuse the message, and
// must load the protocol of the quoted packet into register A. The filter then accepts the message
// if the protocol is `other`, or a protocol in the outer IP header of a forwarding mode. gue:
// instruction that loads the protocol in a GUE header into A; the filter accepts quoted UDP packets
// only if this protocol is IPv4 or IPv6. gue NULL: the filter accepts all quoted UDP packets,
// because routers may quote only the UDP header.
void weir_tunnel_filter_make(const struct sock_filter *head, uint16_t head_count, uint8_t other,
	const struct sock_filter *gue, struct weir_tunnel_filter *ret);

// Opens ICMP sockets with these filters. Returns the result of weir_icmp_open.
int weir_tunnel_filter_open(const struct weir_tunnel_filter *ipv4,
	const struct weir_tunnel_filter *ipv6, struct weir_icmp_sockets *ret);

// Returns whether the outer IP header of a forwarding mode can have this protocol number.
bool weir_tunnel_protocol(uint8_t protocol);
