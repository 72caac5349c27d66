// SPDX-License-Identifier: BSD-3-Clause
//
// Drop reasons: the only list of reasons why a packet is dropped. This list generates the enum, the
// counters, the CLI text and the results of weir-pcap. A unit test compares the table in
// docs/guide/troubleshooting.md with the list. Only append to the list: its order is part of the
// segment's ABI.
#pragma once

// X(NAME, "name in counters and JSON", "description for users")
// clang-format off
#define WEIR_DROP_REASONS(X)                                                                       \
	X(FRAME_TOO_SHORT, "frame_too_short", "frame shorter than its Ethernet header")            \
	X(VLAN_TRUNCATED, "vlan_truncated", "frame ends inside a VLAN tag")                        \
	X(VLAN_TOO_DEEP, "vlan_too_deep", "more than two VLAN tags")                               \
	X(IPV4_TRUNCATED, "ipv4_truncated", "frame ends inside the IPv4 header")                   \
	X(IPV4_VERSION, "ipv4_version", "EtherType is IPv4, but the version field is not 4")       \
	X(IPV4_HEADER_LENGTH, "ipv4_header_length", "IPv4 header length below 20 or beyond the packet") \
	X(IPV4_TOTAL_LENGTH, "ipv4_total_length", "IPv4 total length shorter than the header or longer than the frame") \
	X(IPV4_CHECKSUM, "ipv4_checksum", "wrong IPv4 header checksum")                            \
	X(IPV6_TRUNCATED, "ipv6_truncated", "frame ends inside the IPv6 header")                   \
	X(IPV6_VERSION, "ipv6_version", "EtherType is IPv6, but the version field is not 6")       \
	X(IPV6_PAYLOAD_LENGTH, "ipv6_payload_length", "IPv6 payload length beyond the frame")      \
	X(IPV6_EXTENSION, "ipv6_extension", "IPv6 extension headers truncated, out of order or too long") \
	X(FRAGMENT, "fragment", "IP fragment that is neither TCP nor UDP, or fragments.entries is 0") \
	X(SOURCE_ADDRESS, "source_address", "martian source: multicast, loopback, unspecified, IPv4-mapped or a VIP") \
	X(TTL_EXPIRED, "ttl_expired", "TTL or hop limit was 0 on arrival")                         \
	X(TCP_TRUNCATED, "tcp_truncated", "packet ends inside the TCP header")                     \
	X(TCP_HEADER_LENGTH, "tcp_header_length", "TCP data offset below 20 bytes or beyond the packet") \
	X(TCP_FLAGS, "tcp_flags", "invalid TCP flags (none, SYN+FIN, SYN+RST, ...)")               \
	X(UDP_TRUNCATED, "udp_truncated", "packet ends inside the UDP header")                     \
	X(UDP_LENGTH, "udp_length", "UDP length below 8 or beyond the packet")                     \
	X(ICMP_TRUNCATED, "icmp_truncated", "packet ends inside the ICMP header or the packet quoted in an ICMP error") \
	X(ICMP_CHECKSUM, "icmp_checksum", "ICMP echo request with a wrong checksum")               \
	X(ICMP_UNMATCHED, "icmp_unmatched", "ICMP error that quotes a packet of no service")  \
	X(NO_BACKEND, "no_backend", "the service has no usable backend")                           \
	X(NO_NEIGHBOUR, "no_neighbour", "the next hop of the backend is not resolved (no MAC address)") \
	X(BACKEND_GONE, "backend_gone", "the backend was removed and no other backend is usable")  \
	X(MTU_EXCEEDED, "mtu_exceeded", "too big for the path MTU; ICMP error sent")               \
	X(ICMP_RATE, "icmp_rate", "no ICMP reply is sent: rate limit exceeded")                       \
	X(HEADROOM, "headroom", "no room in the packet buffer for the headers")                    \
	X(NO_EXCEPTION_PORT, "no_exception_port", "no exception device to punt the packet to the kernel") \
	X(EXCEPTION_FULL, "exception_full", "the queue to the kernel is full")                     \
	X(TX_FULL, "tx_full", "the transmit queue is full")                                        \
	X(HANDOFF_FULL, "handoff_full", "the ring to the flow's worker, or the hold queue of a moving bucket, is full") \
	X(FRAME_TOO_LONG, "frame_too_long", "frame longer than a packet buffer")                   \
	X(TX_TOO_LONG, "tx_too_long", "packet longer than the MTU of the egress port")             \
	X(FLOW_CONTROL, "flow_control", "every backend of the service is at max_active_flows")     \
	X(GROUP_MAC, "group_mac", "no reply is sent: source or destination MAC address is broadcast or multicast")      \
	X(OTHER_MAC, "other_mac", "frame to another MAC address, or broadcast or multicast frame with a packet to a VIP") \
	X(FRAGMENT_BUFFERS, "fragment_buffers", "no packet buffers for the fragments of a packet") \
	X(CLOSED_PORT, "closed_port", "packet to a port of a VIP without a bind (closed_ports), or new flow to a drained bind") \
	X(FRAGMENT_OVERLAP, "fragment_overlap", "fragment that overlaps another fragment, or is beyond the end of the datagram") \
	X(FRAGMENT_TINY, "fragment_tiny", "fragment with an incomplete TCP or UDP header, or an invalid length") \
	X(FRAGMENT_FIRST_MISSING, "fragment_first_missing", "fragment of a datagram whose first fragment has not arrived, was rejected, or arrived too long ago") \
	X(FRAGMENT_TABLE, "fragment_table", "fragment of a datagram with too many gaps (missing fragments)")          \
	X(BACKEND_DOWN, "backend_down", "the backend is down; RST sent to the client")             \
	X(RESET_RATE, "reset_rate", "the backend is down; no RST is sent: rate limit exceeded")
// clang-format on

enum weir_drop_reason {
#define X(name, key, text) WEIR_DROP_##name,
	WEIR_DROP_REASONS(X)
#undef X
		WEIR_DROP_REASON_COUNT
};

// Number of counters of drops in the segment. The number is greater than the number of reasons, so
// that a new reason does not change the ABI.
#define WEIR_DROP_REASON_SLOTS 64

_Static_assert(WEIR_DROP_REASON_COUNT <= WEIR_DROP_REASON_SLOTS, "one counter per drop reason");

// Returns the name as used in JSON and counters, or "unknown". Never NULL.
const char *weir_drop_reason_name(enum weir_drop_reason reason);
// Returns a description of the reason for users. Never NULL.
const char *weir_drop_reason_text(enum weir_drop_reason reason);
