// SPDX-License-Identifier: BSD-3-Clause
//
// Outer: a worker's private copy of a backend's row. The worker makes the copy when it adopts the
// row (weir_reader_adopt_row).
//
// The worker checks the row once, when it copies the row. No check per packet is needed, because
// only the worker can change the copy. For each kind, the header ends at a fixed offset in the
// copy. Therefore the fast path can copy the header with a constant length, without branches.
//
// Threads: part of a pipeline, used only by the worker of the pipeline.
#pragma once

#include <stdbool.h>

#include "encap.h"

// Number of bytes copied in front of the packet. COPY2: only an Ethernet header. COPY4: outer IPv4.
// COPY6: outer IPv6, or outer IPv4 with a tail (forwarding.h). COPY_MAX: outer IPv6 with a tail.
#define WEIR_OUTER_COPY2 32u
#define WEIR_OUTER_COPY4 48u
#define WEIR_OUTER_COPY6 64u
#define WEIR_OUTER_COPY_MAX 80u
_Static_assert(WEIR_OUTER_COPY_MAX <= WEIR_PARSE_HEADROOM,
	"the headroom of a packet in the fast path must be large enough for the copy");

enum weir_outer_kind {
	WEIR_OUTER_IPV4,
	WEIR_OUTER_IPV4_PREFIX, // the low bits of the source address depend on the flow
	WEIR_OUTER_IPV6,
	WEIR_OUTER_NONE, // only an Ethernet header
	WEIR_OUTER_IPV4_TAIL, // with a tail: headers between the outer IP header and the packet
	WEIR_OUTER_IPV4_PREFIX_TAIL,
	WEIR_OUTER_IPV6_TAIL,
};

// Two cache lines; an outer IPv4 header without a tail needs only the first.
struct weir_outer {
	struct weir_verdict verdict; // verdict for a packet of a known flow to this backend
	uint16_t source_low; // IPv4: low half of the source address, in network order
	uint16_t source_mask; // bits that come from the flow hash; 0 in source_low
	// Maximum length of an inner packet, in bytes. 0 = the backend is down or cannot be used:
	// slow_path.c handles all of its packets.
	uint16_t inner_max;
	// IPv4: folded sum of the header's 16-bit words, in network order, except the first word,
	// the length, and, without a tail, the word with TTL and protocol.
	uint16_t checksum;
	uint8_t header_bytes; // length of all headers
	uint8_t kind; // enum weir_outer_kind
	// The header of the row. It ends weir_outer_copy_bytes after the start of header_bytes.
	uint8_t header[WEIR_OUTER_COPY_MAX - 2];
	struct weir_row_head head; // head of the row; all zeroes = no backend
	uint8_t reserved1[8];
};
_Static_assert(sizeof(struct weir_outer) == 128, "two cache lines");
_Static_assert(offsetof(struct weir_outer, header_bytes) == 16,
	"the copy must begin at a multiple of 16 bytes");

// Fill `outer` from a row, of which the caller has a private copy. Returns false, without a change,
// for a row that weir_backend_row_build never creates, or a row with an invalid port or service. A
// backend that is removed or down, whose next hop is not resolved, or whose MTU is not greater than
// the length of the outer headers has inner_max 0.
bool weir_outer_adopt(struct weir_outer *outer, const struct weir_backend_row *row,
	uint16_t backend, uint32_t ports, uint32_t services);

// Returns the number of bytes that are copied for a valid row: a multiple of 16, at least
// header_bytes + 2.
static inline uint32_t weir_outer_copy_bytes(const struct weir_row_head *head) {
	uint32_t bytes = head->outer_family == 6   ? WEIR_OUTER_COPY6
			 : head->outer_family == 4 ? WEIR_OUTER_COPY4
						   : WEIR_OUTER_COPY2;

	return bytes + (head->tail_bytes > 0 ? 16 : 0);
}

// Returns the row's header: head.header_bytes bytes.
static inline const uint8_t *weir_outer_header(const struct weir_outer *outer) {
	return &outer->header[weir_outer_copy_bytes(&outer->head) - 2 - outer->head.header_bytes];
}

// Write the outer headers in front of the inner packet.
// prefix: whether low bits of the source address depend on the flow; a compile-time constant.
static __rte_always_inline void weir_outer_write4(
	uint8_t *inner, const struct weir_summary *s, const struct weir_outer *outer, bool prefix) {
	const uint8_t *from = &outer->header_bytes;
	uint32_t first = s->first, ttl_protocol = s->ttl_protocol;
	uint32_t total = __builtin_bswap16((uint16_t)(s->ip_bytes + WEIR_IPV4_BYTES));
	uint16_t low = prefix ? weir_encap_source_low(s->hash, outer->source_mask) : 0;
	uint32_t sum = outer->checksum + first + total + ttl_protocol + low;

	rte_mov16(inner - 48, from);
	rte_mov16(inner - 32, from + 16);
	rte_mov16(inner - 16, from + 32);
	weir_store32(inner - 20, first | total << 16);
	weir_store32(
		inner - 12, ttl_protocol | (uint32_t)(uint16_t)~weir_checksum_fold20(sum) << 16);
	if (prefix) {
		weir_store16(inner - 6, outer->source_low | low);
	}
}

static __rte_always_inline void weir_outer_write6(
	uint8_t *inner, const struct weir_summary *s, const struct weir_outer *outer) {
	const uint8_t *from = &outer->header_bytes;

	rte_mov16(inner - 64, from);
	rte_mov16(inner - 48, from + 16);
	rte_mov16(inner - 32, from + 32);
	rte_mov16(inner - 16, from + 48);
	weir_encap_ipv6(
		inner - WEIR_IPV6_BYTES, s->hash, s->first >> 8, s->ttl_protocol >> 8, s->ip_bytes);
}

// Writes an Ethernet header. The EtherType is not read from the row, whose head is in the second
// cache line.
static __rte_always_inline void weir_outer_write_l2(
	uint8_t *inner, const struct weir_summary *s, const struct weir_outer *outer) {
	const uint8_t *from = &outer->header_bytes;

	rte_mov16(inner - 32, from);
	rte_mov16(inner - 16, from + 16);
	weir_store16(inner - 2,
		s->family == 4 ? RTE_BE16(WEIR_ETHERTYPE_IPV4) : RTE_BE16(WEIR_ETHERTYPE_IPV6));
}

static __rte_always_inline void weir_outer_write4_tail(
	uint8_t *inner, const struct weir_summary *s, const struct weir_outer *outer, bool prefix) {
	const uint8_t *from = &outer->header_bytes;
	uint64_t outer_bytes = WEIR_IPV4_BYTES + outer->head.tail_bytes;
	uint32_t first = s->first;
	uint32_t total = __builtin_bswap16((uint16_t)(s->ip_bytes + outer_bytes));
	uint16_t low = prefix ? weir_encap_source_low(s->hash, outer->source_mask) : 0;
	uint32_t sum = outer->checksum + first + total + low;
	uint8_t *ip = inner - outer_bytes;

	rte_mov16(inner - 64, from);
	rte_mov16(inner - 48, from + 16);
	rte_mov16(inner - 32, from + 32);
	rte_mov16(inner - 16, from + 48);
	weir_store32(ip, first | total << 16);
	weir_store16(ip + 10, (uint16_t)~weir_checksum_fold20(sum));
	if (prefix) {
		weir_store16(ip + 14, outer->source_low | low);
	}
	weir_encap_tail(inner, &outer->head, s->family, s->hash, s->ip_bytes);
}

static __rte_always_inline void weir_outer_write6_tail(
	uint8_t *inner, const struct weir_summary *s, const struct weir_outer *outer) {
	const uint8_t *from = &outer->header_bytes;
	uint32_t tail_bytes = outer->head.tail_bytes;
	uint8_t *ip = inner - WEIR_IPV6_BYTES - tail_bytes;

	rte_mov16(inner - 80, from);
	rte_mov16(inner - 64, from + 16);
	rte_mov16(inner - 48, from + 32);
	rte_mov16(inner - 32, from + 48);
	rte_mov16(inner - 16, from + 64);
	weir_encap_ipv6(ip, s->hash, s->first >> 8, ip[6], s->ip_bytes + tail_bytes);
	weir_encap_tail(inner, &outer->head, s->family, s->hash, s->ip_bytes);
}

// Replaces the Ethernet header of a packet with the backend's headers, and removes the padding of
// the frame. If a frame without an outer IP header is then too short, the function pads it again.
// The packet must have a summary and at most inner_max bytes. The result is the same as that of
// weir_encap_push; a test compares both results.
static __rte_always_inline void weir_outer_push(
	struct rte_mbuf *m, const struct weir_summary *s, const struct weir_outer *outer) {
	uint64_t inner_off = (uint64_t)(s->ip - (const uint8_t *)m->buf_addr);
	uint8_t *inner = (uint8_t *)m->buf_addr + inner_off;
	uint32_t bytes = outer->header_bytes;
	uint32_t length = bytes + s->ip_bytes;

	m->data_off = (uint16_t)(inner_off - bytes);
	m->pkt_len = length;
	m->data_len = (uint16_t)length;
	if (likely(outer->kind == WEIR_OUTER_IPV4)) {
		weir_outer_write4(inner, s, outer, false);
		return;
	}
	if (outer->kind == WEIR_OUTER_NONE) {
		weir_outer_write_l2(inner, s, outer);
		if (unlikely(length < WEIR_FRAME_BYTES_MIN)) { // frames of other kinds are longer
			weir_encap_pad(m);
		}
		return;
	}
	switch (outer->kind) {
	case WEIR_OUTER_IPV6:
		weir_outer_write6(inner, s, outer);
		break;
	case WEIR_OUTER_IPV4_PREFIX:
		weir_outer_write4(inner, s, outer, true);
		break;
	case WEIR_OUTER_IPV4_TAIL:
		weir_outer_write4_tail(inner, s, outer, false);
		break;
	case WEIR_OUTER_IPV4_PREFIX_TAIL:
		weir_outer_write4_tail(inner, s, outer, true);
		break;
	default:
		weir_outer_write6_tail(inner, s, outer);
	}
}
