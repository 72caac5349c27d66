// SPDX-License-Identifier: BSD-3-Clause
//
// Parse: fills a summary or a descriptor from the bytes of a frame: addresses, ports, hash, errors.
// Called by pipeline.c and distribute.c for every packet. There are two kinds of bad packets:
// broken (always dropped) and suspect (dropped if the destination is a VIP, otherwise passed to the
// kernel). The parser has no table of VIPs, so it cannot drop suspect packets itself.
//
// There are two parsers. weir_parse_slow() makes all checks in sequence and determines the drop
// reason. weir_parse_fast() accepts most valid TCP and UDP packets, and all other packets go to the
// slow parser. The slow parser accepts every packet that the fast parser accepts; a test compares
// both parsers.
//
// Threads: any; no shared state. Only weir_parse_gather reads beyond the first segment of the
// packet, and changes the packet.
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
#define WEIR_FRAGMENT_BYTES 8 // IPv6 fragment header

#define WEIR_TCP_FIN 0x01
#define WEIR_TCP_SYN 0x02
#define WEIR_TCP_RST 0x04

// In a packet in several segments, headers beyond this number of bytes and beyond the first segment
// count as truncated.
#define WEIR_HEADERS_BYTES 256

// Tables indexed by a byte of the packet. The tables are adjacent, so that one register holds their
// address. An entry has the bit WEIR_PARSE_REFUSED if the fast path must not accept the packet.
// Therefore one branch checks both the TCP flags and the source.
#define WEIR_PARSE_REFUSED 0x80
#define WEIR_TCP_INVALID 0xff
struct weir_parse_tables {
	uint8_t tcp_event[256]; // event of each combination of TCP flags, or WEIR_TCP_INVALID
	// Index: first byte of an IPv4 source. WEIR_PARSE_REFUSED if martian sources may begin with
	// it, else 0. weir_parse_slow checks the whole address.
	uint8_t martian_source4[256];
	uint8_t martian_source6[256]; // index: first byte of an IPv6 source
};
extern const struct weir_parse_tables weir_parse_tables;

void weir_parse_slow(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *ret);

// --- MAC addresses --------------------------------------------------------------------------

// The destination MAC addresses that a port accepts. The port accepts a frame if the first 8 bytes
// of the frame, loaded as a word, equal `address` in the bits of `mask`.
struct weir_parse_mac {
	uint64_t address;
	uint64_t mask;
};

// Returns the addresses that a port accepts. mac: MAC address of the port, 6 bytes. any: the port
// accepts every unicast address. A port without an address has an all-zero mac, and also accepts
// every unicast address.
struct weir_parse_mac weir_parse_mac_of(const uint8_t *mac, bool any);

// Returns true if the port accepts a frame. The frame has at least WEIR_ETHERNET_BYTES.
static __rte_always_inline bool weir_parse_mac_ours(
	const struct weir_parse_mac *mac, const uint8_t *frame) {
	return likely(((weir_load64(frame) ^ mac->address) & mac->mask) == 0);
}

// Change the descriptor of a frame that the port does not accept; the frame has at least
// WEIR_ETHERNET_BYTES. A frame to another host is broken. A broadcast or multicast frame is
// suspect: Weir does not forward it, but the kernel still gets frames that the host needs (ARP,
// neighbour discovery).
void weir_parse_other_mac(const uint8_t *frame, struct weir_descriptor *d);

// Gather the headers of a packet in several segments into the first segment: WEIR_HEADERS_BYTES
// bytes, or as many as the first segment has room for (headers beyond these bytes count as
// truncated). [worker]
void weir_parse_gather(struct rte_mbuf *m);

// weir_parse_ipv6_chain walks the IPv6 extension headers of a packet. ip: the IPv6 header. bytes:
// number of bytes that may be read from there, at least WEIR_IPV6_BYTES. Returns 0 and this result,
// or -EPROTO (the chain is truncated, out of order or too long, or has two fragment headers).
struct weir_ipv6_chain {
	// Protocol of the first header after the chain. In a later fragment, this is the Next
	// Header field of the fragment header. It may be an extension header instead of the
	// protocol of the datagram.
	uint8_t protocol;
	bool fragment; // the packet is a fragment
	bool later; // not the first fragment: the chain ends at the fragment header, data follows
	uint16_t fragment_offset; // offset of the fragment header from the IPv6 header
	uint16_t offset; // offset of the first header after the chain
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

// --- fast path ----------------------------------------------------------------------------
//
// The fast path makes several comparisons, each followed by a branch that is not taken for a packet
// of the fast path. The CPU fuses comparison and branch into one operation, which costs less than
// combining all results before one branch. Packets that fail a comparison go to weir_parse_slow,
// and may still be valid.

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the code requires a little-endian CPU");

// Headroom that is enough to write any outer header in front of the IP header.
#define WEIR_PARSE_HEADROOM 80u

// Returns true if the ethertype and the IP header at ip fit the fast path: this family and version,
// no options, no fragment, TTL above 0, this protocol. Reads up to 16 bytes, from the ethertype on.
static __rte_always_inline bool weir_parse_fast_head(
	const uint8_t *ip, unsigned int family, uint8_t protocol) {
#ifdef __SSE2__
	typedef uint8_t bytes __attribute__((vector_size(16)));
	typedef char chars __attribute__((vector_size(16)));
	// The 16 bytes begin with: ethertype, version and header length, TOS, length,
	// identification, fragment offset and flags, TTL, protocol, checksum.
	const bytes mask4 = {0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0x3f, 0xff, 0xff, 0xff};
	const bytes want4 = {0x08, 0x00, 0x45, 0, 0, 0, 0, 0, 0, 0, 0, protocol};
	// The 16 bytes begin with: ethertype, version, traffic class and flow label, length, next
	// header, hop limit.
	const bytes mask6 = {0xff, 0xff, 0xf0, 0, 0, 0, 0, 0, 0xff, 0xff};
	const bytes want6 = {0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, protocol, 0};
	const int ttl = 1 << (family == 4 ? 10 : 9);
	bytes head;

	memcpy(&head, ip - 2, sizeof(head));
	head = (bytes)((head & (family == 4 ? mask4 : mask6)) == (family == 4 ? want4 : want6));
	return __builtin_ia32_pmovmskb128((chars)head) ==
	       (0xffff & ~ttl); // the TTL must differ from 0
#else
	if (family == 4) {
		return weir_load16(ip - 2) == RTE_BE16(WEIR_ETHERTYPE_IPV4) && ip[0] == 0x45 &&
		       (weir_load16(ip + 6) & RTE_BE16(0x3fff)) == 0 && ip[8] != 0 &&
		       ip[9] == protocol;
	}
	return weir_load16(ip - 2) == RTE_BE16(WEIR_ETHERTYPE_IPV6) && ip[0] >> 4 == 6 &&
	       ip[6] == protocol && ip[7] != 0;
#endif
}

// Fill a summary, except first, hash, bucket and backend. family, protocol: constants.
static __rte_always_inline void weir_parse_summarize(struct weir_summary *s, const uint8_t *ip,
	uint32_t ip_bytes, uint32_t family, uint32_t protocol, uint32_t event) {
	uint32_t outer = WEIR_OUTER_TTL | (family == 4 ? 4u : 41u) << 8;

	_Static_assert(offsetof(struct weir_summary, family) == 28 &&
			       offsetof(struct weir_summary, protocol) == 29 &&
			       offsetof(struct weir_summary, ttl_protocol) == 30,
		"the fields must be adjacent: one store writes all three");
	s->ip = ip;
	s->ip_bytes = ip_bytes;
	weir_store32(&s->family, family | protocol << 8 | outer << 16);
	s->event = (uint8_t)event;
}

// Check the remaining fields of an IPv4 packet whose header weir_parse_fast_head has accepted.
// total: the total length in the IP header, at most the length of the packet.
static __rte_always_inline bool weir_parse_fast_rest4(const uint8_t *ip, uint32_t total,
	uint32_t protocol, uint32_t event, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	uint64_t addresses = weir_load64(ip + 12); // source, destination
	uint32_t destination = (uint32_t)(addresses >> 32);

	s->first = weir_load16(ip);
	if (unlikely(((event | weir_parse_tables.martian_source4[ip[12]]) & WEIR_PARSE_REFUSED) !=
		     0)) {
		return false;
	}
	if (unlikely((uint32_t)addresses == destination)) {
		return false;
	}
	// The checksum is verified even if the NIC has already verified it, because reading the
	// NIC's flag would cost as much.
	if (unlikely(
		    !weir_checksum_ipv4_right(weir_load64(ip), weir_load64(ip + 8), destination))) {
		return false;
	}
	weir_parse_summarize(s, ip, total, 4, protocol, event);
	s->hash = weir_hash_words4(
		addresses, weir_load32(ip + WEIR_IPV4_BYTES), (uint8_t)protocol, keys);
	return true;
}

// Returns the length of a TCP header's options, in bytes. If reserved bits are set, the result is
// up to three bytes too high. If the data offset is below the length of a TCP header, the result is
// higher than the length of any packet.
static __rte_always_inline uint32_t weir_parse_tcp_options(const uint8_t *tcp) {
	return ((uint32_t)tcp[12] - (WEIR_TCP_BYTES << 2)) >> 2;
}

// Check the remaining fields of an IPv6 packet whose header weir_parse_fast_head has accepted.
// payload: the payload length in the IP header, at most the length of the packet.
static __rte_always_inline bool weir_parse_fast_rest6(const uint8_t *ip, uint32_t payload,
	uint32_t protocol, uint32_t event, const struct weir_hash_keys *keys,
	struct weir_summary *s) {
	uint32_t first = __builtin_bswap16(weir_load16(ip)); // version, traffic class, flow label

	if (unlikely(((event | weir_parse_tables.martian_source6[ip[8]]) & WEIR_PARSE_REFUSED) !=
		     0)) {
		return false;
	}
	// The source may be equal to the destination: their second halves are equal.
	if (unlikely(weir_load64(ip + 16) == weir_load64(ip + 32))) {
		return false;
	}
	weir_parse_summarize(s, ip, payload + WEIR_IPV6_BYTES, 6, protocol, event);
	s->first = (uint16_t)((first << 4 & 0xff00) | 0x45);
	s->hash = weir_hash_words6(
		ip + 8, ip + 24, weir_load32(ip + WEIR_IPV6_BYTES), (uint8_t)protocol, keys);
	return true;
}

// Parse TCP in IPv4, after weir_parse_fast_head has accepted the IP header. readable: number of
// readable bytes from the IP header on, at least the length of both headers.
static __rte_always_inline bool weir_parse_fast_tcp4(const uint8_t *ip, uint32_t readable,
	const struct weir_hash_keys *keys, struct weir_summary *s) {
	const uint32_t headers = WEIR_IPV4_BYTES + WEIR_TCP_BYTES;
	const uint8_t *tcp = ip + WEIR_IPV4_BYTES;
	uint32_t total = __builtin_bswap16(weir_load16(ip + 2));

	if (unlikely(total - headers > readable - headers)) { // too long or too short
		return false;
	}
	if (unlikely(weir_parse_tcp_options(tcp) > total - headers)) {
		return false;
	}
	return likely(weir_parse_fast_rest4(
		ip, total, WEIR_PROTOCOL_TCP, weir_parse_tables.tcp_event[tcp[13]], keys, s));
}

// Parse TCP in IPv6, after weir_parse_fast_head has accepted the IP header. readable: number of
// readable bytes from the IP header on.
static __rte_always_inline bool weir_parse_fast_tcp6(const uint8_t *ip, uint32_t readable,
	const struct weir_hash_keys *keys, struct weir_summary *s) {
	const uint32_t headers = WEIR_IPV6_BYTES + WEIR_TCP_BYTES;
	const uint8_t *tcp = ip + WEIR_IPV6_BYTES;
	uint32_t payload;

	if (unlikely(readable < headers)) {
		return false;
	}
	payload = __builtin_bswap16(weir_load16(ip + 4));
	if (unlikely(payload - WEIR_TCP_BYTES > readable - headers)) { // too long or too short
		return false;
	}
	if (unlikely(weir_parse_tcp_options(tcp) > payload - WEIR_TCP_BYTES)) {
		return false;
	}
	return likely(weir_parse_fast_rest6(
		ip, payload, WEIR_PROTOCOL_TCP, weir_parse_tables.tcp_event[tcp[13]], keys, s));
}

// Parse packets of the fast path other than untagged TCP. readable: number of readable bytes from
// the IP header on, at least the length of IPv4 and TCP headers.
bool weir_parse_fast_other(const uint8_t *ip, uint32_t readable, const struct weir_hash_keys *keys,
	struct weir_summary *s);

// Find the IP header of a packet without a VLAN tag, or the first tag of a tagged packet, and the
// number of bytes from there to the end of the frame. If the function returns true, this number is
// at least the length of an IP header of this family and a TCP header. Returns false if the packet
// must take the slow path. family: a compile-time constant: 6, or 4 if the packet can be IPv4 or
// IPv6.
static __rte_always_inline bool weir_parse_fast_frame(const struct rte_mbuf *m, unsigned int family,
	const uint8_t **ret_ip, uint32_t *ret_readable) {
	const uint32_t ip_bytes = family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES;

	if (unlikely(m->nb_segs != 1)) {
		return false;
	}
	if (unlikely(m->data_off < WEIR_PARSE_HEADROOM - WEIR_ETHERNET_BYTES)) {
		return false;
	}
	// Require room for a TCP header, so that a TCP or UDP header can be read without a further
	// check.
	if (unlikely(m->data_len < WEIR_ETHERNET_BYTES + ip_bytes + WEIR_TCP_BYTES)) {
		return false;
	}
	*ret_ip = (const uint8_t *)m->buf_addr + m->data_off + WEIR_ETHERNET_BYTES;
	*ret_readable = m->data_len - WEIR_ETHERNET_BYTES;
	return true;
}

// Fill the summary of a packet accepted by weir_parse_fast_frame, except bucket and backend.
// Returns false if the packet must take the slow path, as all broken packets do: then call
// weir_parse_slow. keys: keys of the flow hash. [worker]
static __rte_always_inline bool weir_parse_fast_packet(const uint8_t *ip, uint32_t readable,
	const struct weir_hash_keys *keys, struct weir_summary *s) {
	if (likely(weir_parse_fast_head(ip, 4, WEIR_PROTOCOL_TCP))) {
		return weir_parse_fast_tcp4(ip, readable, keys, s);
	}
	if (likely(weir_parse_fast_head(ip, 6, WEIR_PROTOCOL_TCP))) {
		return weir_parse_fast_tcp6(ip, readable, keys, s);
	}
	return weir_parse_fast_other(ip, readable, keys, s);
}

// Calls weir_parse_fast_frame and weir_parse_fast_packet. Returns false if one of them does.
// [worker]
static __rte_always_inline bool weir_parse_fast(
	const struct rte_mbuf *m, const struct weir_hash_keys *keys, struct weir_summary *s) {
	const uint8_t *ip;
	uint32_t readable;

	return likely(weir_parse_fast_frame(m, 4, &ip, &readable)) &&
	       weir_parse_fast_packet(ip, readable, keys, s);
}

// Fill the descriptor of a packet that has a summary, except the verdict. The packet must not have
// been rewritten.
static inline void weir_parse_describe(
	const struct rte_mbuf *m, const struct weir_summary *s, struct weir_descriptor *d) {
	uint32_t l3_offset = (uint32_t)(s->ip - rte_pktmbuf_mtod(m, const uint8_t *));
	uint32_t l4_offset = s->family == 4 ? WEIR_IPV4_BYTES : WEIR_IPV6_BYTES;
	const uint8_t *ip = s->ip;

	if (likely(s->family == 4)) {
		weir_store_padded32(d->key.source, weir_load32(ip + 12));
		weir_store_padded32(d->key.destination, weir_load32(ip + 16));
	} else {
		memcpy(d->key.source, ip + 8, 32); // both addresses
	}
	weir_store32(&d->key.source_port, weir_load32(ip + l4_offset)); // both ports
	// Store whole words for speed, because this code runs for every new flow.
	_Static_assert(offsetof(struct weir_descriptor, key.family) == 36 &&
			       offsetof(struct weir_descriptor, key.protocol) == 37 &&
			       offsetof(struct weir_descriptor, kind) == 38 &&
			       offsetof(struct weir_descriptor, tos) == 39,
		"family, protocol, kind and tos must be adjacent: one store writes all four");
	weir_store32(&d->key.family, weir_load16(&s->family) | (uint32_t)WEIR_PACKET_FLOW << 16 |
					     (uint32_t)(s->first >> 8) << 24);
	d->hash = s->hash;
	d->ip_bytes = s->ip_bytes;
	_Static_assert(offsetof(struct weir_descriptor, l3_offset) == 52 &&
			       offsetof(struct weir_descriptor, event) == 53 &&
			       offsetof(struct weir_descriptor, l4_offset) == 54,
		"l3_offset, event and l4_offset must be adjacent: one store writes all three");
	weir_store32(&d->l3_offset, l3_offset | (uint32_t)s->event << 8 | l4_offset << 16);
}

// Fill a descriptor from any packet. [worker]
static inline void weir_parse(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	struct weir_hash_keys keys = weir_hash_keys_of(seed);
	struct weir_summary s;

	if (likely(weir_parse_fast(m, &keys, &s))) {
		weir_parse_describe(m, &s, d);
		weir_descriptor_undecided(d);
	} else {
		weir_parse_slow(m, seed, d);
	}
}
