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

// Is anything unusual about these TCP or UDP headers? l4: 20 readable bytes; l4_bytes: what the IP
// packet has for them.
static inline unsigned int weir_parse_unusual_l4(
	const uint8_t *l4, uint8_t protocol, uint32_t l4_bytes, uint8_t *ret_event) {
	uint32_t tcp_header = (uint32_t)(l4[12] >> 4) * 4;
	uint8_t event = weir_tcp_event[l4[13] & WEIR_TCP_FLAGS];
	uint32_t udp_bytes = rte_be_to_cpu_16(weir_load16(l4 + 4));
	unsigned int not_tcp = protocol != WEIR_PROTOCOL_TCP;
	unsigned int not_udp = protocol != WEIR_PROTOCOL_UDP;

	*ret_event = not_tcp ? WEIR_FLOW_EVENT_DATAGRAM : event;
	not_tcp |= tcp_header < WEIR_TCP_BYTES;
	not_tcp |= tcp_header > l4_bytes;
	not_tcp |= event == WEIR_TCP_INVALID;
	not_udp |= udp_bytes < WEIR_UDP_BYTES;
	not_udp |= udp_bytes > l4_bytes;
	return not_tcp & not_udp;
}

static inline void weir_parse_usual_end(struct weir_descriptor *d, const uint8_t *l4,
	uint8_t family, uint8_t protocol, uint64_t hash) {
	memcpy(&d->key.source_port, l4, 4); // both ports
	d->key.family = family;
	d->key.protocol = protocol;
	d->kind = WEIR_PACKET_FLOW;
	d->hash = hash;
	d->verdict = (struct weir_verdict){.action = WEIR_ACTION_FORWARD,
		.reason = WEIR_REASON_NONE,
		.choice = WEIR_CHOICE_NONE,
		.backend = WEIR_BACKEND_NONE,
		.service = WEIR_SERVICE_NONE};
}

static inline bool weir_parse_usual_ipv4(const struct rte_mbuf *m, const uint8_t *ip,
	uint32_t available, uint64_t seed, struct weir_descriptor *d) {
	uint32_t total = rte_be_to_cpu_16(weir_load16(ip + 2));
	uint32_t source = weir_load32(ip + 12);
	uint32_t destination = weir_load32(ip + 16);
	uint8_t protocol = ip[9];
	unsigned int checked =
		(m->ol_flags & RTE_MBUF_F_RX_IP_CKSUM_MASK) == RTE_MBUF_F_RX_IP_CKSUM_GOOD;
	unsigned int unusual = weir_parse_unusual_l4(
		ip + WEIR_IPV4_BYTES, protocol, total - WEIR_IPV4_BYTES, &d->event);

	unusual |= ip[0] != 0x45;
	unusual |= total < WEIR_IPV4_BYTES;
	unusual |= total > available;
	unusual |= (weir_load16(ip + 6) & RTE_BE16(0x3fff)) != 0; // a fragment
	unusual |= ip[8] == 0;
	unusual |= (weir_checksum_ipv4(ip) != 0xffff) & (checked ^ 1);
	unusual |= weir_parse_bad_source4(source, destination);
	if (unlikely(unusual)) {
		return false;
	}
	memset(d->key.source, 0, 32);
	weir_store32(d->key.source, source);
	weir_store32(d->key.destination, destination);
	d->tos = ip[1];
	d->ip_bytes = total;
	d->l4_offset = WEIR_IPV4_BYTES;
	weir_parse_usual_end(d, ip + WEIR_IPV4_BYTES, 4, protocol,
		weir_hash_ipv4(source, destination, weir_load16(ip + 20), weir_load16(ip + 22),
			protocol, seed));
	return true;
}

static inline bool weir_parse_usual_ipv6(
	const uint8_t *ip, uint32_t available, uint64_t seed, struct weir_descriptor *d) {
	uint32_t first = rte_be_to_cpu_32(weir_load32(ip));
	uint32_t payload = rte_be_to_cpu_16(weir_load16(ip + 4));
	uint8_t protocol = ip[6];
	unsigned int unusual =
		weir_parse_unusual_l4(ip + WEIR_IPV6_BYTES, protocol, payload, &d->event);

	unusual |= first >> 28 != 6;
	unusual |= payload + WEIR_IPV6_BYTES > available;
	unusual |= ip[7] == 0;
	unusual |= weir_parse_bad_source6(ip + 8, ip + 24);
	if (unlikely(unusual)) {
		return false;
	}
	memcpy(d->key.source, ip + 8, 32);
	d->tos = (uint8_t)(first >> 20);
	d->ip_bytes = payload + WEIR_IPV6_BYTES;
	d->l4_offset = WEIR_IPV6_BYTES;
	weir_parse_usual_end(d, ip + WEIR_IPV6_BYTES, 6, protocol,
		weir_hash_ipv6(ip + 8, ip + 24, weir_load16(ip + 40), weir_load16(ip + 42),
			protocol, seed));
	return true;
}

// Fill a descriptor from a packet. seed: of the flow hash. [worker]
static inline void weir_parse(const struct rte_mbuf *m, uint64_t seed, struct weir_descriptor *d) {
	const uint8_t *frame = rte_pktmbuf_mtod(m, const uint8_t *);
	uint32_t l3 = WEIR_ETHERNET_BYTES;
	uint32_t available;
	uint16_t type;

	if (likely(m->nb_segs == 1 && m->data_len >= WEIR_ETHERNET_BYTES + WEIR_VLAN_BYTES)) {
		type = weir_load16(frame + 12);
		if (type == RTE_BE16(WEIR_ETHERTYPE_VLAN)) {
			type = weir_load16(frame + 16);
			l3 += WEIR_VLAN_BYTES;
		}
		available = m->data_len - l3;
		d->l3_offset = (uint8_t)l3;
		// With room for a TCP header, so that either L4 header may be read unasked.
		if (likely(type == RTE_BE16(WEIR_ETHERTYPE_IPV4) &&
			    available >= WEIR_IPV4_BYTES + WEIR_TCP_BYTES)) {
			if (likely(weir_parse_usual_ipv4(m, frame + l3, available, seed, d))) {
				return;
			}
		} else if (type == RTE_BE16(WEIR_ETHERTYPE_IPV6) &&
			   available >= WEIR_IPV6_BYTES + WEIR_TCP_BYTES) {
			if (likely(weir_parse_usual_ipv6(frame + l3, available, seed, d))) {
				return;
			}
		}
	}
	weir_parse_whole(m, seed, d);
}
