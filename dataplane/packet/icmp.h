// SPDX-License-Identifier: BSD-3-Clause
//
// ICMP and ICMPv6: rewrites a packet in place into an echo reply or an error message, and finds the
// flow of the packet that an ICMP error quotes.
//
// Threads: a rate limit is used by one worker only. All other functions have no state; only the
// worker that owns the packet calls them.
#pragma once

#include <rte_mbuf.h>

#include "descriptor.h"

// --- rate of replies: a token bucket that holds one second's allowance ---------------------

// Rate limit; credit is counted in nanoseconds, to avoid a division per packet
struct weir_icmp_limit {
	uint64_t cost_ns; // cost of one reply; UINT64_MAX = no replies
	uint64_t credit_ns;
	uint64_t last_ns;
};

void weir_icmp_limit_init(struct weir_icmp_limit *limit, uint32_t replies_per_second);
// Returns true if a token is available. weir_icmp_limit_take then takes the token.
bool weir_icmp_limit_ready(struct weir_icmp_limit *limit, uint64_t now_ns);
void weir_icmp_limit_take(struct weir_icmp_limit *limit);

// --- errors about flows of clients ---------------------------------------------------------

// Finds the flow to which an ICMP error refers. The error quotes a packet from the VIP to a
// client. *ret is the key of the packets in the other direction: its source is the client.
// Returns 0. On an error, *ret is unchanged: -EBADMSG (quoted packet malformed or too short),
// -ENOENT (the quoted packet is not TCP or UDP, is a fragment without ports, or was not sent from
// the destination address of the error).
int weir_icmp_error_flow(
	const struct rte_mbuf *m, const struct weir_descriptor *d, struct weir_flow_key *ret);

// --- replies -------------------------------------------------------------------------------

// Rewrite an echo request into its reply. The reply has swapped addresses, a new TTL, and no IP
// options or extension headers (a Record Route option is ignored). Returns 0, -EBADMSG (checksum
// wrong; packet untouched), -ENOBUFS (no headroom for a VLAN tag that the NIC stripped; packet
// untouched).
int weir_icmp_echo_reply(struct rte_mbuf *m, const struct weir_descriptor *d);

// Rewrite a packet to a VIP into the ICMP message for its sender: "fragmentation needed" (type 3
// code 4, RFC 1191) or "packet too big" (RFC 4443). The source is the VIP. The message quotes as
// much of the packet's first segment as fits: the message is at most 576 (ICMP) or 1280 bytes
// (ICMPv6) long. Returns 0, -ENOBUFS (no headroom; packet untouched).
int weir_icmp_too_big(struct rte_mbuf *m, const struct weir_descriptor *d, uint16_t mtu);

// Rewrite a packet to a VIP into "port unreachable" (RFC 792, RFC 4443), with as much of the
// packet's first segment as the message may quote. Returns 0, -ENOBUFS (no headroom; packet
// untouched).
int weir_icmp_port_unreachable(struct rte_mbuf *m, const struct weir_descriptor *d);

// --- for replies of other protocols --------------------------------------------------------

// Returns the headroom that weir_icmp_reply_l2 needs for a tag that the NIC stripped, or 0.
uint32_t weir_icmp_reply_headroom(const struct rte_mbuf *m);
// Call when the IP packet of a frame is a complete reply. Swaps the MAC addresses of the frame, and
// restores a tag that the NIC stripped. Pads the frame to the minimum Ethernet length if the buffer
// has room, because not every NIC pads frames.
void weir_icmp_reply_l2(struct rte_mbuf *m);
// Returns whether the TCP, UDP or ICMP checksum of a whole packet (not a fragment) is right. A UDP
// packet in IPv4 need not have a checksum.
bool weir_icmp_l4_checksum_good(const struct rte_mbuf *m, const struct weir_descriptor *d);
