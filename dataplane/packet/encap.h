// SPDX-License-Identifier: BSD-3-Clause
//
// Encap: adds a backend's outer header to a packet (IP in IP: RFC 2003, RFC 2473, RFC 4213; all
// four combinations of IPv4 and IPv6). Called by pipeline.c.
//
// The outer header is a copy of the header in the backend row, made by control (backend_row.h). The
// worker fills in the fields that depend on the packet:
//   IPv4: DSCP and ECN, total length, protocol, checksum. checksum_base of the row is the folded
//         sum of the header's ten 16-bit words in host order; in these words, DSCP, ECN, total
//         length and checksum are 0, and the protocol is 4. The identification stays 0: with DF
//         set it has no meaning (RFC 6864).
//         If all flows have the same outer addresses, ECMP and the receive queues of the backend
//         cannot distinguish flows. Therefore a source prefix can be configured: the low
//         source_bits of the source address then come from the flow hash.
//   IPv6: traffic class, flow label, payload length, next header. The label is 20 bits of the flow
//         hash, so that routers on the way spread flows over paths (RFC 6438).
// DSCP and ECN are copied (RFC 6040, ingress in normal mode). The inner packet, including its TTL,
// is left unchanged, so that the load balancer is not visible as a hop.
//
// Threads: pure functions on the worker's own packet and its own copy of the row.
#pragma once

#include <rte_branch_prediction.h>
#include <rte_byteorder.h>
#include <rte_mbuf.h>
#include <rte_memcpy.h>

#include "checksum.h"
#include "descriptor.h"
#include "layout.h"
#include "parse.h"

// The first 16 bytes of struct weir_backend_row.
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
};
_Static_assert(sizeof(struct weir_row_head) == 16,
	"weir_row_head must equal the head of weir_backend_row");
_Static_assert(offsetof(struct weir_backend_row, header) == 16,
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

// The backend's limit of active flows; UINT32_MAX = none.
static inline uint32_t weir_encap_own_limit(const struct weir_row_head *head) {
	if ((head->flags & WEIR_BACKEND_AT_LIMIT) != 0) {
		return 0;
	}
	return head->max_active_flows != 0 ? head->max_active_flows : UINT32_MAX;
}

// Length of the outer IP header in bytes.
static inline uint32_t weir_encap_outer_bytes(const struct weir_row_head *head) {
	return (uint32_t)head->header_bytes - head->l2_bytes;
}

// Whether the row may be copied. False for rows that weir_backend_row_build never creates.
static inline bool weir_encap_row_valid(const struct weir_row_head *head) {
	uint32_t outer = head->outer_family == 6 ? WEIR_IPV6_BYTES : WEIR_IPV4_BYTES;

	unsigned int wrong = head->l2_bytes < WEIR_ETHERNET_BYTES;

	wrong |= head->header_bytes > WEIR_OUTER_HEADER_BYTES;
	wrong |= head->header_bytes != head->l2_bytes + outer;
	wrong |= head->source_bits > (head->outer_family == 6 ? 0 : WEIR_SOURCE_BITS_MAX);
	return wrong == 0;
}

// Whether the packet with its outer header fits the MTU of the path to the backend.
static inline bool weir_encap_fits(
	const struct weir_row_head *head, const struct weir_descriptor *d) {
	return d->ip_bytes + weir_encap_outer_bytes(head) <= head->mtu;
}

// Returns the bits of the low half of the IPv4 source address that depend on the flow, in memory
// order. They come from hash bits that are not used to choose a worker, bucket or slot.
static inline uint16_t weir_encap_source_low(uint64_t hash, uint16_t mask) {
	return (uint16_t)(hash >> 16) & mask;
}

static inline uint16_t weir_encap_source_mask(const struct weir_row_head *head) {
	return rte_cpu_to_be_16((uint16_t)((1u << head->source_bits) - 1));
}

static inline void weir_encap_ipv4(
	uint8_t *outer, const struct weir_row_head *head, const struct weir_descriptor *d) {
	uint16_t low = weir_encap_source_low(d->hash, weir_encap_source_mask(head));
	uint32_t total = d->ip_bytes + WEIR_IPV4_BYTES;
	uint32_t protocol = d->key.family == 4 ? 4 : 41;
	uint16_t sum = weir_checksum_fold20((uint32_t)head->checksum_base + d->tos + total +
					    (protocol - 4) + rte_be_to_cpu_16(low));
	uint16_t checksum = rte_cpu_to_be_16((uint16_t)~sum);

	weir_store32(outer,
		0x45u | (uint32_t)d->tos << 8 | (uint32_t)rte_cpu_to_be_16((uint16_t)total) << 16);
	weir_store32(outer + 8, WEIR_OUTER_TTL | protocol << 8 | (uint32_t)checksum << 16);
	weir_store16(outer + 14, (uint16_t)(weir_load16(outer + 14) | low));
}

// Fills in the fields of an outer IPv6 header that depend on the packet. hash: flow hash of the
// inner packet. next_header: 4 or 41, the inner protocol.
static inline void weir_encap_ipv6(
	uint8_t *outer, uint64_t hash, uint32_t tos, uint32_t next_header, uint32_t ip_bytes) {
	uint32_t label = (uint32_t)(hash >> 12) & 0xfffff;

	label += label == 0; // 0 means "no label"
	weir_store32(outer, rte_cpu_to_be_32(6u << 28 | tos << 20 | label));
	weir_store32(outer + 4, (uint32_t)rte_cpu_to_be_16((uint16_t)ip_bytes) | next_header << 16 |
					(uint32_t)WEIR_OUTER_TTL << 24);
}

// Replaces the frame's Ethernet header with the backend's Ethernet header and the outer IP header.
// Removes the frame's padding. head: head of the row, valid; from: the row's header, header_bytes
// bytes. The packet must fit, be in one segment, and have headroom of at least header_bytes -
// l3_offset.
static inline void weir_encap_push(struct rte_mbuf *m, const struct weir_descriptor *d,
	const uint8_t *from, const struct weir_row_head *head) {
	uint32_t bytes = head->header_bytes;
	uint16_t data_off = (uint16_t)(m->data_off + d->l3_offset - bytes);
	uint8_t *to = (uint8_t *)m->buf_addr + data_off;

	// Copy 34 to 62 bytes in four moves; the middle moves may overlap.
	rte_mov16(to, from);
	rte_mov16(to + 16, from + 16);
	rte_mov16(to + bytes - 32, from + bytes - 32);
	rte_mov16(to + bytes - 16, from + bytes - 16);
	if (likely(head->outer_family == 4)) {
		weir_encap_ipv4(to + head->l2_bytes, head, d);
	} else {
		weir_encap_ipv6(to + head->l2_bytes, d->hash, d->tos, d->key.family == 4 ? 4 : 41,
			d->ip_bytes);
	}
	m->data_off = data_off;
	m->pkt_len = bytes + d->ip_bytes;
	m->data_len = (uint16_t)m->pkt_len;
}

// Truncate a packet in several segments to its first `bytes` bytes and free the remaining segments.
// bytes: 1 to pkt_len.
void weir_encap_cut(struct rte_mbuf *m, uint32_t bytes);

// weir_encap_push for a packet in several segments. The first segment holds at least the header of
// the inner packet.
void weir_encap_push_segments(struct rte_mbuf *m, const struct weir_descriptor *d,
	const uint8_t *from, const struct weir_row_head *head);
