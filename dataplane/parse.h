// SPDX-License-Identifier: BSD-3-Clause
//
// Parse: from the bytes of a frame to a descriptor: addresses, ports, hash, what is wrong with it.
// Called by pipeline.c for every packet. Knows no table, so "wrong" comes in two kinds: broken
// (drop, whoever it was for) and suspect (drop if the destination is a VIP, else the kernel's).
//
// There are two parsers. weir_parse_whole() checks one thing after the other and finds the reason.
// weir_parse() is a shortcut for the usual packet: it asks only whether anything is unusual, and
// leaves that to the other. Both give the same result for every packet; a test
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

// Headers must lie within this many bytes when a packet comes in several segments.
#define WEIR_HEADERS_BYTES 256

// Event of each byte of TCP flags, WEIR_TCP_INVALID for what no TCP sends.
#define WEIR_TCP_INVALID 0xff
extern const uint8_t weir_tcp_event[256];

// First bytes of source addresses that the shortcut does not take.
extern const uint8_t weir_parse_odd_source4[256];

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
// A packet of the usual kind passes a row of comparisons, each a branch that is never taken: with
// the comparison before it that is one operation, and less than gathering all answers first. It is
// described by few stores of whole words: fields that lie side by side in the packet or the
// descriptor are treated together. What looks unusual is left to weir_parse_whole, which may still
// find it in order.

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "words are put together by hand");
_Static_assert(offsetof(struct weir_descriptor, key.source_port) == 32 &&
		       offsetof(struct weir_descriptor, key.family) == 36 &&
		       offsetof(struct weir_descriptor, key.protocol) == 37 &&
		       offsetof(struct weir_descriptor, kind) == 38 &&
		       offsetof(struct weir_descriptor, tos) == 39,
	"words: ports; family, protocol, kind, tos");
_Static_assert(offsetof(struct weir_descriptor, ip_bytes) == 48 &&
		       offsetof(struct weir_descriptor, l3_offset) == 52 &&
		       offsetof(struct weir_descriptor, event) == 53 &&
		       offsetof(struct weir_descriptor, l4_offset) == 54,
	"words: ip_bytes; l3_offset, event, l4_offset");

// Is this TCP or UDP header usual? l4: 20 readable bytes; l4_bytes: what the IP packet has for it,
// negative when it is shorter than its own header.
static __rte_always_inline bool weir_parse_usual_tcp(
	const uint8_t *tcp, int32_t l4_bytes, uint32_t *ret_event) {
	*ret_event = weir_tcp_event[tcp[13]];
	if (unlikely(tcp[12] < WEIR_TCP_BYTES / 4 << 4)) {
		return false;
	}
	if (unlikely((tcp[12] >> 4) * 4 > l4_bytes)) {
		return false;
	}
	return likely(*ret_event != WEIR_TCP_INVALID);
}

static __rte_always_inline bool weir_parse_usual_udp(
	const uint8_t *udp, int32_t l4_bytes, uint32_t *ret_event) {
	int32_t udp_bytes = __builtin_bswap16(weir_load16(udp + 4));

	*ret_event = WEIR_FLOW_EVENT_DATAGRAM;
	if (unlikely(udp_bytes < WEIR_UDP_BYTES)) {
		return false;
	}
	return likely(udp_bytes <= l4_bytes);
}

// What the descriptor says besides addresses and hash. The verdict is left to the look-up.
static __rte_always_inline void weir_parse_describe(struct weir_descriptor *d, uint32_t ports,
	uint32_t family, uint32_t protocol, uint32_t tos, uint32_t ip_bytes, uint32_t l3_offset,
	uint32_t event, uint32_t l4_offset) {
	weir_store32(&d->key.source_port, ports);
	weir_store32(&d->key.family,
		family | protocol << 8 | (uint32_t)WEIR_PACKET_FLOW << 16 | tos << 24);
	d->ip_bytes = ip_bytes;
	weir_store32(&d->l3_offset, l3_offset | event << 8 | l4_offset << 16);
}

// A place in a frame: its IP header, of which `available` bytes may be read. l3_offset: a constant.
struct weir_parse_at {
	const uint8_t *ip;
	uint32_t l3_offset;
	uint32_t available;
};

// The end of both below: nothing was unusual. protocol: a constant.
static __rte_always_inline void weir_parse_describe4(const struct weir_parse_at *at,
	uint64_t addresses, uint32_t total, uint32_t protocol, uint32_t event, uint64_t seed,
	struct weir_descriptor *d) {
	uint32_t ports = weir_load32(at->ip + WEIR_IPV4_BYTES);

	weir_store_padded32(d->key.source, (uint32_t)addresses);
	weir_store_padded32(d->key.destination, (uint32_t)(addresses >> 32));
	weir_parse_describe(
		d, ports, 4, protocol, at->ip[1], total, at->l3_offset, event, WEIR_IPV4_BYTES);
	d->hash = weir_hash_words4(addresses, ports, (uint8_t)protocol, seed);
}

static __rte_always_inline bool weir_parse_usual_ipv4(const struct rte_mbuf *m,
	const struct weir_parse_at *at, uint64_t seed, struct weir_descriptor *d) {
	const uint64_t fixed = 0xff3f0000000000ffull; // version, header length; fragment offset
	const uint8_t *ip = at->ip;
	uint64_t first = weir_load64(ip); // version to fragment offset
	uint64_t second = weir_load64(ip + 8); // TTL, protocol, checksum, source
	uint64_t addresses = weir_load64(ip + 12); // source, destination
	uint32_t total = __builtin_bswap16(weir_load16(ip + 2));
	int32_t l4_bytes = (int32_t)total - WEIR_IPV4_BYTES;
	uint32_t event;

	if (unlikely((first & fixed) != 0x45)) {
		return false;
	}
	if (unlikely(total > at->available)) {
		return false;
	}
	if (unlikely(ip[8] == 0)) { // TTL
		return false;
	}
	if (unlikely(weir_parse_odd_source4[ip[12]] != 0)) {
		return false;
	}
	if (unlikely((uint32_t)addresses == (uint32_t)(addresses >> 32))) {
		return false;
	}
	if ((m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) != RTE_MBUF_F_RX_IP_CKSUM_GOOD &&
		unlikely(!weir_checksum_ipv4_right(first, second, (uint32_t)(addresses >> 32)))) {
		return false;
	}
	if (likely(ip[9] == WEIR_PROTOCOL_TCP)) {
		if (unlikely(!weir_parse_usual_tcp(ip + WEIR_IPV4_BYTES, l4_bytes, &event))) {
			return false;
		}
		weir_parse_describe4(at, addresses, total, WEIR_PROTOCOL_TCP, event, seed, d);
		return true;
	}
	if (unlikely(ip[9] != WEIR_PROTOCOL_UDP) ||
		unlikely(!weir_parse_usual_udp(ip + WEIR_IPV4_BYTES, l4_bytes, &event))) {
		return false;
	}
	weir_parse_describe4(at, addresses, total, WEIR_PROTOCOL_UDP, event, seed, d);
	return true;
}

static __rte_always_inline bool weir_parse_usual_ipv6(
	const struct weir_parse_at *at, uint64_t seed, struct weir_descriptor *d) {
	const uint8_t *ip = at->ip;
	const uint8_t *l4 = ip + WEIR_IPV6_BYTES;
	uint32_t number = __builtin_bswap32(weir_load32(ip)); // version, traffic class, label
	uint32_t payload = __builtin_bswap16(weir_load16(ip + 4));
	uint32_t ports = weir_load32(l4);
	uint32_t protocol = ip[6];
	uint32_t event;

	if (unlikely(number >> 28 != 6)) {
		return false;
	}
	if (unlikely(payload + WEIR_IPV6_BYTES > at->available)) {
		return false;
	}
	if (unlikely(ip[7] == 0)) { // hop limit
		return false;
	}
	if (unlikely(weir_parse_bad_source6(ip + 8, ip + 24))) {
		return false;
	}
	if (likely(protocol == WEIR_PROTOCOL_TCP)) {
		if (unlikely(!weir_parse_usual_tcp(l4, (int32_t)payload, &event))) {
			return false;
		}
	} else if (unlikely(protocol != WEIR_PROTOCOL_UDP) ||
		   unlikely(!weir_parse_usual_udp(l4, (int32_t)payload, &event))) {
		return false;
	}
	memcpy(d->key.source, ip + 8, 32);
	weir_parse_describe(d, ports, 6, protocol, (number >> 20) & 0xff, payload + WEIR_IPV6_BYTES,
		at->l3_offset, event, WEIR_IPV6_BYTES);
	d->hash = weir_hash_words6(ip + 8, ip + 24, ports, (uint8_t)protocol, seed);
	return true;
}

// l3_offset: a constant. The frame has at least as many bytes as below.
static __rte_always_inline unsigned int weir_parse_usual_l3(const struct rte_mbuf *m,
	const uint8_t *frame, uint32_t l3_offset, uint64_t seed, struct weir_descriptor *d) {
	struct weir_parse_at at = {.ip = frame + l3_offset,
		.l3_offset = l3_offset,
		.available = m->data_len - l3_offset};
	uint16_t type = weir_load16(at.ip - 2);

	if (likely(type == RTE_BE16(WEIR_ETHERTYPE_IPV4))) {
		return likely(weir_parse_usual_ipv4(m, &at, seed, d)) ? 4 : 0;
	}
	return likely(type == RTE_BE16(WEIR_ETHERTYPE_IPV6)) &&
			       likely(at.available >= WEIR_IPV6_BYTES + WEIR_TCP_BYTES) &&
			       likely(weir_parse_usual_ipv6(&at, seed, d))
		       ? 6
		       : 0;
}

// The same of a frame with a VLAN tag.
unsigned int weir_parse_usual_vlan(
	const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d);

// Fill a descriptor from a packet of the usual kind. Returns its family, or 0 for any other, and
// for a broken one: then weir_parse_whole tells. seed: of the flow hash. [worker]
static __rte_always_inline unsigned int weir_parse_usual(
	const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);

	if (unlikely(m->nb_segs != 1)) {
		return 0;
	}
	// With room for a TCP header, so that either L4 header may be read unasked.
	if (unlikely(m->data_len < WEIR_ETHERNET_BYTES + WEIR_IPV4_BYTES + WEIR_TCP_BYTES)) {
		return 0;
	}
	if (unlikely(weir_load16(frame + 12) == RTE_BE16(WEIR_ETHERTYPE_VLAN))) {
		return weir_parse_usual_vlan(m, seed, d);
	}
	return weir_parse_usual_l3(m, frame, WEIR_ETHERNET_BYTES, seed, d);
}

// Fill a descriptor from any packet. [worker]
static inline void weir_parse(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	weir_descriptor_decide(d, WEIR_CHOICE_NONE, WEIR_BACKEND_NONE);
	if (weir_parse_usual(m, seed, d) == 0) {
		weir_parse_whole(m, seed, d);
	}
}
