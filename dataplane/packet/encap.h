// SPDX-License-Identifier: BSD-3-Clause
//
// Encap: puts a backend's headers in front of a packet, for all forwarding modes (forwarding.h) and
// all four combinations of IPv4 and IPv6. Called by slow_path.c and fragment_output.c; outer.h is
// the version for the fast path.
//
// The headers are a copy of the header in the backend row, made by control (backend_row.h). The
// worker fills in the fields that depend on the packet:
//   IPv4: DSCP and ECN, total length, protocol, checksum. checksum_base of the row is the folded
//         sum of the header's ten 16-bit words in host order; in these words, DSCP, ECN, total
//         length and checksum are 0, and the protocol is 4 if the worker fills it in. The
//         identification stays 0: with DF set it has no meaning (RFC 6864).
//         If all flows have the same outer addresses, ECMP and the receive queues of the backend
//         cannot distinguish flows. Therefore a source prefix can be configured: the low
//         source_bits of the source address then come from the flow hash.
//   IPv6: traffic class, flow label, payload length, next header. The label is 20 bits of the flow
//         hash, so that routers on the way spread flows over paths (RFC 6438).
//   UDP:  source port and length; the checksum is 0.
//   The field at inner_at: EtherType or protocol of the packet.
// DSCP and ECN are copied (RFC 6040, ingress in normal mode). The inner packet, including its TTL,
// is left unchanged, so that the load balancer is not visible as a hop.
//
// Threads: only the worker that owns the packet and the copy of the row.
#pragma once

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_mbuf.h>

#include "checksum.h"
#include "descriptor.h"
#include "layout.h"
#include "parse.h"

// The first 24 bytes of struct weir_backend_row.
struct weir_row_head {
	uint8_t flags;
	uint8_t port;
	uint8_t outer_family;
	uint8_t l2_bytes;
	uint8_t header_bytes;
	uint8_t source_bits;
	uint16_t mtu;
	uint16_t service;
	uint16_t checksum_base;
	uint32_t max_active_flows;
	uint8_t forwarding;
	uint8_t tail_bytes;
	uint8_t inner_at;
	uint8_t udp_at;
	uint16_t inner4;
	uint16_t inner6;
};
_Static_assert(sizeof(struct weir_row_head) == 24,
	"weir_row_head must equal the head of weir_backend_row");
_Static_assert(
	offsetof(struct weir_backend_row, header) == 24 &&
		offsetof(struct weir_backend_row, inner6) == offsetof(struct weir_row_head, inner6),
	"weir_row_head must equal the head of weir_backend_row");
_Static_assert(offsetof(struct weir_backend_row, mtu) == offsetof(struct weir_row_head, mtu) &&
		       offsetof(struct weir_backend_row, checksum_base) ==
			       offsetof(struct weir_row_head, checksum_base),
	"weir_row_head must equal the head of weir_backend_row");

static inline struct weir_row_head weir_encap_read(const struct weir_backend_row *row) {
	struct weir_row_head head;

	memcpy(&head, row, sizeof(head));
	return head;
}

// Returns the backend's limit of active flows; 0 = the backend is at its limit, UINT32_MAX = none.
static inline uint32_t weir_encap_own_limit(const struct weir_row_head *head) {
	if ((head->flags & WEIR_BACKEND_AT_LIMIT) != 0) {
		return 0;
	}
	return head->max_active_flows != 0 ? head->max_active_flows : UINT32_MAX;
}

// Returns the number of bytes that are put in front of the IP packet: the outer IP header, and the
// headers of the forwarding mode.
static inline uint32_t weir_encap_outer_bytes(const struct weir_row_head *head) {
	return (uint32_t)head->header_bytes - head->l2_bytes;
}

// Returns the length of the outer IP header; 0 = none.
static inline uint32_t weir_encap_ip_bytes(const struct weir_row_head *head) {
	return head->outer_family == 6   ? WEIR_IPV6_BYTES
	       : head->outer_family == 4 ? WEIR_IPV4_BYTES
					 : 0;
}

// Returns whether the row may be copied. False for rows that weir_backend_row_build never creates.
static inline bool weir_encap_row_valid(const struct weir_row_head *head) {
	uint32_t ip = weir_encap_ip_bytes(head);
	// The fields that depend on the packet are behind the outer IP header, or at the end of the
	// Ethernet header.
	uint32_t room = ip > 0 ? head->tail_bytes : head->l2_bytes;
	unsigned int wrong = head->l2_bytes < WEIR_ETHERNET_BYTES;

	wrong |= head->header_bytes > WEIR_OUTER_HEADER_BYTES;
	wrong |= head->header_bytes != head->l2_bytes + ip + head->tail_bytes;
	wrong |= ip == 0 && head->outer_family != 0;
	wrong |= ip == 0 && (head->tail_bytes > 0 || head->udp_at > 0);
	wrong |= (head->inner_at == 0) != (ip > 0 && head->tail_bytes == 0);
	wrong |= head->inner_at > room || head->inner_at == 1;
	wrong |= head->udp_at > room || (head->udp_at > 0 && head->udp_at < WEIR_UDP_BYTES);
	wrong |= head->source_bits > (head->outer_family == 4 ? WEIR_SOURCE_BITS_MAX : 0);
	return wrong == 0;
}

// Returns whether the packet with its outer header fits the MTU of the path to the backend.
static inline bool weir_encap_fits(
	const struct weir_row_head *head, const struct weir_descriptor *d) {
	return d->ip_bytes + weir_encap_outer_bytes(head) <= head->mtu;
}

// Returns the bits of the low half of the IPv4 source address that depend on the flow, in memory
// order. They come from bits 16 to 31 of the hash.
static inline uint16_t weir_encap_source_low(uint64_t hash, uint16_t mask) {
	return (uint16_t)(hash >> 16) & mask;
}

static inline uint16_t weir_encap_source_mask(const struct weir_row_head *head) {
	return rte_cpu_to_be_16((uint16_t)((1u << head->source_bits) - 1));
}

static inline void weir_encap_ipv4(
	uint8_t *outer, const struct weir_row_head *head, const struct weir_descriptor *d) {
	uint16_t low = weir_encap_source_low(d->hash, weir_encap_source_mask(head));
	uint32_t total = d->ip_bytes + WEIR_IPV4_BYTES + head->tail_bytes;
	uint32_t sum = (uint32_t)head->checksum_base + d->tos + total + rte_be_to_cpu_16(low);
	uint32_t protocol = outer[9];
	uint16_t checksum;

	if (head->tail_bytes == 0 && d->key.family == 6) {
		protocol = 41; // in the row: 4
		sum += 41 - 4;
	}
	checksum = rte_cpu_to_be_16((uint16_t)~weir_checksum_fold20(sum));
	weir_store32(outer,
		0x45u | (uint32_t)d->tos << 8 | (uint32_t)rte_cpu_to_be_16((uint16_t)total) << 16);
	weir_store32(outer + 8, WEIR_OUTER_TTL | protocol << 8 | (uint32_t)checksum << 16);
	weir_store16(outer + 14, (uint16_t)(weir_load16(outer + 14) | low));
}

// Fills in the fields of an outer IPv6 header that depend on the packet. hash: flow hash of the
// inner packet. bytes: length of the payload.
static inline void weir_encap_ipv6(
	uint8_t *outer, uint64_t hash, uint32_t tos, uint32_t next_header, uint32_t bytes) {
	uint32_t label = (uint32_t)(hash >> 12) & 0xfffff;

	label += label == 0; // 0 means "no label"
	weir_store32(outer, rte_cpu_to_be_32(6u << 28 | tos << 20 | label));
	weir_store32(outer + 4, (uint32_t)__builtin_bswap16((uint16_t)bytes) | next_header << 16 |
					(uint32_t)WEIR_OUTER_TTL << 24);
}

// Fills in the header fields at inner_at and udp_at. head: head of a valid row, whose inner_at is
// not 0. inner: the packet; family, hash and ip_bytes: properties of the packet.
static inline void weir_encap_tail(uint8_t *inner, const struct weir_row_head *head,
	unsigned int family, uint64_t hash, uint32_t ip_bytes) {
	weir_store16(inner - head->inner_at, family == 4 ? head->inner4 : head->inner6);
	if (head->udp_at > 0) {
		uint8_t *udp = inner - head->udp_at;

		// An ephemeral port (RFC 7510, 3), from bits 16 to 29 of the hash.
		weir_store16(udp, __builtin_bswap16((uint16_t)(0xc000 | (hash >> 16 & 0x3fff))));
		weir_store16(udp + 4, __builtin_bswap16((uint16_t)(head->udp_at + ip_bytes)));
	}
}

#define WEIR_FRAME_BYTES_MIN 60u // minimum length of an Ethernet frame, without its checksum

#define WEIR_PADDING_BYTES_MAX 32u // more than the padding of a frame with an IP header

// Pads a frame with an IP packet to the minimum Ethernet length if it is in one segment and the
// buffer has room, because not every NIC pads frames. If WEIR_PADDING_BYTES_MAX bytes fit, zeroes
// this number of bytes, also behind the frame, because a constant number needs no call of memset.
static inline void weir_encap_pad(struct rte_mbuf *m) {
	uint32_t bytes = WEIR_FRAME_BYTES_MIN - RTE_MIN(m->pkt_len, WEIR_FRAME_BYTES_MIN);
	uint32_t room = rte_pktmbuf_tailroom(m);

	if (bytes > 0 && m->nb_segs == 1 && room >= bytes) {
		uint8_t *end = rte_pktmbuf_mtod_offset(m, uint8_t *, m->data_len);

		if (likely(room >= WEIR_PADDING_BYTES_MAX)) {
			memset(end, 0, WEIR_PADDING_BYTES_MAX);
		} else {
			memset(end, 0, bytes);
		}
		m->data_len = WEIR_FRAME_BYTES_MIN;
		m->pkt_len = WEIR_FRAME_BYTES_MIN;
	}
}
_Static_assert(
	WEIR_FRAME_BYTES_MIN - WEIR_ETHERNET_BYTES - WEIR_IPV4_BYTES <= WEIR_PADDING_BYTES_MAX,
	"the longest padding must fit");

// Replaces the frame's Ethernet header with the backend's headers, and the frame's padding with the
// padding that is needed.
// head: head of the row, valid; from: the row's header, header_bytes bytes. The packet must fit, be
// in one segment, and have headroom of at least header_bytes - l3_offset.
static inline void weir_encap_push(struct rte_mbuf *m, const struct weir_descriptor *d,
	const uint8_t *from, const struct weir_row_head *head) {
	uint32_t bytes = head->header_bytes;
	uint16_t data_off = (uint16_t)(m->data_off + d->l3_offset - bytes);
	uint8_t *to = (uint8_t *)m->buf_addr + data_off;

	memcpy(to, from, bytes);
	if (likely(head->outer_family == 4)) {
		weir_encap_ipv4(to + head->l2_bytes, head, d);
	} else if (head->outer_family == 6) {
		uint8_t *outer = to + head->l2_bytes;
		uint32_t next_header = head->tail_bytes > 0 ? outer[6]
				       : d->key.family == 4 ? 4
							    : 41;

		weir_encap_ipv6(
			outer, d->hash, d->tos, next_header, d->ip_bytes + head->tail_bytes);
	}
	if (head->inner_at > 0) {
		weir_encap_tail(to + bytes, head, d->key.family, d->hash, d->ip_bytes);
	}
	m->data_off = data_off;
	m->pkt_len = bytes + d->ip_bytes;
	m->data_len = (uint16_t)m->pkt_len;
	weir_encap_pad(m);
}

// Truncate a packet, which may have several segments, to its first `bytes` bytes, and free the
// remaining segments. bytes: 1 to pkt_len.
void weir_encap_cut(struct rte_mbuf *m, uint32_t bytes);

// Same as weir_encap_push, for a packet in several segments. The first segment holds at least the
// header of the inner packet.
void weir_encap_push_segments(struct rte_mbuf *m, const struct weir_descriptor *d,
	const uint8_t *from, const struct weir_row_head *head);
