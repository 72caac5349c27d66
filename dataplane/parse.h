// SPDX-License-Identifier: BSD-3-Clause
//
// Parse: from the bytes of a frame to a descriptor: addresses, ports, hash, what is wrong with it.
// Called by pipeline.c for every packet. Knows no table, so "wrong" comes in two kinds: broken
// (drop, whoever it was for) and suspect (drop if the destination is a VIP, else the kernel's).
//
// There are two parsers. weir_parse_whole() checks one thing after the other and finds the reason.
// weir_parse() is a shortcut for the usual packet: it asks all questions at once without branches,
// and leaves whatever is unusual to the other. Both give the same result for every packet; a test
// compares them.
//
// Threads: pure functions. Reads never go beyond the first segment of the packet.
#pragma once

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_mbuf.h>

#include "checksum.h"
#include "descriptor.h"
#include "hash.h"

#define WEIR_ETHERTYPE_IPV4 0x0800
#define WEIR_ETHERTYPE_IPV6 0x86dd
#define WEIR_ETHERTYPE_VLAN 0x8100

#define WEIR_PROTOCOL_ICMP 1
#define WEIR_PROTOCOL_TCP 6
#define WEIR_PROTOCOL_UDP 17
#define WEIR_PROTOCOL_ICMPV6 58

#define WEIR_ETHERNET_BYTES 14
#define WEIR_VLAN_BYTES 4
#define WEIR_IPV4_BYTES 20
#define WEIR_IPV6_BYTES 40
#define WEIR_TCP_BYTES 20
#define WEIR_UDP_BYTES 8
#define WEIR_ICMP_BYTES 8

#define WEIR_TCP_FIN 0x01
#define WEIR_TCP_SYN 0x02
#define WEIR_TCP_RST 0x04
#define WEIR_TCP_FLAGS 0x3f // FIN SYN RST PSH ACK URG; ECE and CWR are ECN's

// Headers must lie within this many bytes when a packet comes in several segments.
#define WEIR_HEADERS_BYTES 256

// Event of each combination of TCP flags, WEIR_TCP_INVALID for what no TCP sends.
#define WEIR_TCP_INVALID 0xff
extern const uint8_t weir_tcp_event[WEIR_TCP_FLAGS + 1];

void weir_parse_whole(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *ret);

// Move headers of a packet in several segments together: its first WEIR_HEADERS_BYTES, or as many
// as the first segment has room for (what then lies beyond counts as truncated). [worker]
void weir_parse_gather(struct rte_mbuf *m);

// Walk IPv6 extension headers. ip: at the IPv6 header, of which `bytes` may be read.
// Returns 0, -EPROTO (chain truncated, out of order, too long).
struct weir_ipv6_chain {
	uint8_t protocol; // first header that is none of the chain's
	bool fragment; // of a packet in several pieces; protocol and offset are not to be trusted
	uint16_t offset; // of that header, from the IPv6 header
};
int weir_parse_ipv6_chain(const uint8_t *ip, uint32_t bytes, struct weir_ipv6_chain *ret);

static inline uint64_t weir_parse_hash(const struct weir_flow_key *key, uint64_t seed) {
	if (likely(key->family == 4)) {
		return weir_hash_ipv4(weir_load32(key->source), weir_load32(key->destination),
			key->source_port, key->destination_port, key->protocol, seed);
	}
	return weir_hash_ipv6(key->source, key->destination, key->source_port,
		key->destination_port, key->protocol, seed);
}

// --- source addresses that no packet to a VIP may have ------------------------------------

// The conditions below are gathered without branches: each is rare, and a branch each would cost
// more than all of them together.

// source and destination as in the packet. True: multicast, broadcast, loopback, "this network"
// or the destination itself.
static inline bool weir_parse_bad_source4(uint32_t source, uint32_t destination) {
	uint8_t first = (uint8_t)source; // little endian: the first byte in the packet
	unsigned int bad = first == 0;

	bad |= first == 127;
	bad |= (first & 0xf0) == 0xe0;
	bad |= source == 0xffffffff;
	bad |= source == destination;
	return bad != 0;
}

// The same for IPv6: multicast, unspecified, loopback or the destination itself.
static inline bool weir_parse_bad_source6(const uint8_t *source, const uint8_t *destination) {
	uint64_t high = weir_load64(source);
	uint64_t low = weir_load64(source + 8);
	uint64_t low_number = rte_be_to_cpu_64(low);
	unsigned int bad = (uint8_t)high == 0xff;

	bad |= (high | (low_number & ~1ull)) == 0;
	bad |= ((high ^ weir_load64(destination)) | (low ^ weir_load64(destination + 8))) == 0;
	return bad != 0;
}

// --- the shortcut -------------------------------------------------------------------------
//
// A packet of the usual kind is told by few comparisons of whole words, and described by few
// stores of whole words: fields that lie side by side in the packet or the descriptor are treated
// together. What looks unusual is left to weir_parse_whole, which may still find it in order.

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are put together by hand");
_Static_assert(offsetof(struct weir_descriptor, key.source_port) == 32 &&
		       offsetof(struct weir_descriptor, key.family) == 36 &&
		       offsetof(struct weir_descriptor, key.protocol) == 37 &&
		       offsetof(struct weir_descriptor, kind) == 38 &&
		       offsetof(struct weir_descriptor, tos) == 39,
	"one word: ports, family, protocol, kind, tos");
_Static_assert(offsetof(struct weir_descriptor, ip_bytes) == 48 &&
		       offsetof(struct weir_descriptor, l3_offset) == 52 &&
		       offsetof(struct weir_descriptor, event) == 53 &&
		       offsetof(struct weir_descriptor, l4_offset) == 54,
	"one word: ip_bytes, l3_offset, event, l4_offset");

// Is anything unusual about these TCP or UDP headers? l4: 20 readable bytes; l4_bytes: what the IP
// packet has for them. Not zero when so.
static inline unsigned int weir_parse_unusual_l4(
	const uint8_t *l4, uint32_t protocol, uint32_t l4_bytes, uint32_t *ret_event) {
	uint32_t flags = weir_load16(l4 + 12); // data offset, and the flags above it
	uint32_t event = weir_tcp_event[(flags >> 8) & WEIR_TCP_FLAGS];
	uint32_t tcp_header = (flags >> 2) & 0x3c;
	uint32_t udp_bytes = rte_be_to_cpu_16(weir_load16(l4 + 4));
	// Each is above the other side when it is too small as well: it wraps.
	unsigned int not_tcp = tcp_header - WEIR_TCP_BYTES > l4_bytes - WEIR_TCP_BYTES;
	unsigned int not_udp = udp_bytes - WEIR_UDP_BYTES > l4_bytes - WEIR_UDP_BYTES;

	not_tcp |= l4_bytes < WEIR_TCP_BYTES;
	not_udp |= l4_bytes < WEIR_UDP_BYTES;
	not_tcp |= event == WEIR_TCP_INVALID;
	not_tcp |= protocol != WEIR_PROTOCOL_TCP;
	not_udp |= protocol != WEIR_PROTOCOL_UDP;
	*ret_event = protocol == WEIR_PROTOCOL_UDP ? WEIR_FLOW_EVENT_DATAGRAM : event;
	return not_tcp & not_udp;
}

// What the descriptor says besides addresses and hash.
static inline void weir_parse_describe(struct weir_descriptor *d, uint32_t ports, uint32_t family,
	uint32_t protocol, uint32_t tos, uint32_t ip_bytes, uint32_t l3_offset, uint32_t event,
	uint32_t l4_offset) {
	static const struct weir_verdict verdict = {.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.service = WEIR_SERVICE_NONE};
	uint32_t high = family | protocol << 8 | (uint32_t)WEIR_PACKET_FLOW << 16 | tos << 24;
	uint64_t lengths = ip_bytes | (uint64_t)l3_offset << 32 | (uint64_t)event << 40 |
			   (uint64_t)l4_offset << 48;

	weir_store64(&d->key.source_port, ports | (uint64_t)high << 32);
	weir_store64(&d->ip_bytes, lengths);
	weir_store64(&d->verdict, weir_load64(&verdict));
}

static inline bool weir_parse_usual_ipv4(const struct rte_mbuf *m, const uint8_t *ip,
	uint32_t l3_offset, uint32_t available, uint64_t seed, struct weir_descriptor *d) {
	const uint64_t fixed = 0xff3f0000000000ffull; // version, header length; fragment offset
	uint64_t first = weir_load64(ip); // version to fragment offset
	uint64_t second = weir_load64(ip + 8); // TTL, protocol, checksum, source
	uint32_t destination = weir_load32(ip + 16);
	uint32_t source = (uint32_t)(second >> 32);
	uint32_t protocol = (uint32_t)second >> 8 & 0xff;
	uint32_t total = rte_be_to_cpu_16((uint16_t)(first >> 16));
	uint32_t ports = weir_load32(ip + WEIR_IPV4_BYTES);
	uint32_t event;
	unsigned int unusual = weir_parse_unusual_l4(
		ip + WEIR_IPV4_BYTES, protocol, total - WEIR_IPV4_BYTES, &event);

	unusual |= (first & fixed) != 0x45;
	unusual |= total - WEIR_IPV4_BYTES > available - WEIR_IPV4_BYTES; // below 20 wraps
	unusual |= (uint8_t)second == 0; // TTL
	// 0.x, 127.x, and all from 224.x up; most of 240.x and above is in order after all.
	unusual |= (uint8_t)((uint8_t)source - 1) >= 223;
	unusual |= (uint8_t)source == 127;
	unusual |= source == destination;
	if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) != RTE_MBUF_F_RX_IP_CKSUM_GOOD) {
		unusual |= !weir_checksum_ipv4_right(first, second, destination);
	}
	if (unlikely(unusual)) {
		return false;
	}
	weir_store128(d->key.source, source, 0);
	weir_store128(d->key.destination, destination, 0);
	weir_parse_describe(d, ports, 4, protocol, (uint8_t)(first >> 8), total, l3_offset, event,
		WEIR_IPV4_BYTES);
	d->hash = weir_hash_ipv4(source, destination, (uint16_t)ports, (uint16_t)(ports >> 16),
		(uint8_t)protocol, seed);
	return true;
}

static inline bool weir_parse_usual_ipv6(const uint8_t *ip, uint32_t l3_offset, uint32_t available,
	uint64_t seed, struct weir_descriptor *d) {
	uint64_t first = weir_load64(ip);
	uint32_t number = rte_be_to_cpu_32((uint32_t)first); // version, traffic class, label
	uint32_t payload = rte_be_to_cpu_16((uint16_t)(first >> 32));
	uint32_t protocol = (uint32_t)(first >> 48) & 0xff;
	uint32_t ports = weir_load32(ip + WEIR_IPV6_BYTES);
	uint32_t event;
	unsigned int unusual =
		weir_parse_unusual_l4(ip + WEIR_IPV6_BYTES, protocol, payload, &event);

	unusual |= number >> 28 != 6;
	unusual |= payload + WEIR_IPV6_BYTES > available;
	unusual |= first >> 56 == 0; // hop limit
	unusual |= weir_parse_bad_source6(ip + 8, ip + 24);
	if (unlikely(unusual)) {
		return false;
	}
	memcpy(d->key.source, ip + 8, 32);
	weir_parse_describe(d, ports, 6, protocol, (number >> 20) & 0xff, payload + WEIR_IPV6_BYTES,
		l3_offset, event, WEIR_IPV6_BYTES);
	d->hash = weir_hash_ipv6(
		ip + 8, ip + 24, (uint16_t)ports, (uint16_t)(ports >> 16), (uint8_t)protocol, seed);
	return true;
}

// Fill a descriptor from a packet of the usual kind. False for any other, and for a broken one:
// then weir_parse_whole tells. seed: of the flow hash. [worker]
static __rte_always_inline bool weir_parse_usual(
	const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t l3 = WEIR_ETHERNET_BYTES;
	uint32_t available;
	uint16_t type;

	if (unlikely(m->nb_segs != 1) ||
		unlikely(m->data_len < WEIR_ETHERNET_BYTES + WEIR_VLAN_BYTES)) {
		return false;
	}
	type = weir_load16(frame + 12);
	if (type == RTE_BE16(WEIR_ETHERTYPE_VLAN)) {
		type = weir_load16(frame + 16);
		l3 += WEIR_VLAN_BYTES;
	}
	available = m->data_len - l3;
	// With room for a TCP header, so that either L4 header may be read unasked.
	if (likely(type == RTE_BE16(WEIR_ETHERTYPE_IPV4))) {
		return likely(available >= WEIR_IPV4_BYTES + WEIR_TCP_BYTES) &&
		       weir_parse_usual_ipv4(m, frame + l3, l3, available, seed, d);
	}
	return type == RTE_BE16(WEIR_ETHERTYPE_IPV6) &&
	       available >= WEIR_IPV6_BYTES + WEIR_TCP_BYTES &&
	       weir_parse_usual_ipv6(frame + l3, l3, available, seed, d);
}

// Fill a descriptor from any packet. [worker]
static inline void weir_parse(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	if (!weir_parse_usual(m, seed, d)) {
		weir_parse_whole(m, seed, d);
	}
}
