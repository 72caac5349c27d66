// SPDX-License-Identifier: BSD-3-Clause
#include "fragment_split.h"

#include <errno.h>

#include <netinet/in.h>
#include <netinet/ip.h>
#include <rte_ip.h>

#include "encap.h"

#define IPV4_DF 0x4000
#define IPV4_MF 0x2000
#define IPV4_OFFSET 0x1fff
#define IPV4_HEADER_MAX 60
#define OPTION_COPIED 0x80 // flag in the type of an option: copy the option into every fragment

bool weir_fragment_allowed(const struct rte_mbuf *m, const struct weir_descriptor *d) {
	const uint8_t *ip = rte_pktmbuf_mtod_offset(m, const uint8_t *, d->l3_offset);

	return d->key.family == 4 && (weir_load16(ip + 6) & RTE_BE16(IPV4_DF)) == 0;
}

// Write the IP header of all pieces except the first to `to`, without the options that must not be
// copied. Returns the length of the header.
static uint32_t later_header(const uint8_t *ip, uint32_t header_bytes, uint8_t *to) {
	uint32_t bytes = WEIR_IPV4_BYTES, at = WEIR_IPV4_BYTES;

	memcpy(to, ip, WEIR_IPV4_BYTES);
	while (at < header_bytes && ip[at] != IPOPT_EOL) {
		uint32_t option = ip[at] == IPOPT_NOP ? 1 : 0;

		if (option == 0) {
			option = at + 1 < header_bytes ? ip[at + 1] : 0;
			if (option < 2 || option > header_bytes - at) {
				break; // malformed: ignore the remaining options
			}
		}
		if ((ip[at] & OPTION_COPIED) != 0) {
			memcpy(to + bytes, ip + at, option);
			bytes += option;
		}
		at += option;
	}
	while (bytes % 4 != 0) {
		to[bytes++] = IPOPT_EOL;
	}
	to[0] = (uint8_t)(0x40 | bytes / 4);
	return bytes;
}

// Fill in the fields that differ between pieces. fragment: flags and offset, in host order.
static void finish_header(uint8_t *ip, uint32_t header_bytes, uint32_t data, uint32_t fragment) {
	weir_store16(ip + 2, rte_cpu_to_be_16((uint16_t)(header_bytes + data)));
	weir_store16(ip + 6, rte_cpu_to_be_16((uint16_t)fragment));
	weir_store16(ip + 10, 0);
	weir_store16(ip + 10, (uint16_t)~rte_raw_cksum(ip, header_bytes));
}

// Copy bytes [offset, offset + bytes) of the packet. In a packet of one segment, bytes after
// data_len are also copied: weir-pcap puts zeros there for the missing bytes of a truncated frame.
static void copy_data(const struct rte_mbuf *m, uint32_t offset, uint32_t bytes, uint8_t *to) {
	const void *from = m->nb_segs == 1 ? rte_pktmbuf_mtod_offset(m, const void *, offset)
					   : rte_pktmbuf_read(m, offset, bytes, to);

	if (from != to) {
		memcpy(to, from, bytes);
	}
}

// Returns the maximum number of data bytes in a piece that is not the last: a multiple of 8.
static uint32_t data_max(uint32_t piece_max, uint32_t header_bytes) {
	return piece_max > header_bytes ? (piece_max - header_bytes) & ~7u : 0;
}

int weir_fragment_split(struct rte_mbuf *m, const struct weir_descriptor *d, uint32_t piece_max,
	struct rte_mbuf **pieces, uint32_t room) {
	uint8_t *ip = rte_pktmbuf_mtod_offset(m, uint8_t *, d->l3_offset);
	uint32_t first_bytes = (uint32_t)(ip[0] & 0x0f) * 4;
	uint32_t data = d->ip_bytes - first_bytes; // payload bytes of all pieces together
	uint32_t fragment = rte_be_to_cpu_16(weir_load16(ip + 6));
	uint8_t header[IPV4_HEADER_MAX];
	uint32_t header_bytes, first, part, count, made, buffer;

	if (d->ip_bytes <= piece_max) {
		return 0;
	}
	buffer = rte_pktmbuf_data_room_size(m->pool);
	// The buffers of this pool have no room for data, so they cannot hold a piece.
	if (buffer <= RTE_PKTMBUF_HEADROOM) {
		return -ENOBUFS;
	}
	header_bytes = later_header(ip, first_bytes, header);
	piece_max = RTE_MIN(piece_max, buffer - RTE_PKTMBUF_HEADROOM);
	first = data_max(piece_max, first_bytes);
	part = data_max(piece_max, header_bytes);
	if (first == 0) {
		return -EMSGSIZE;
	}
	count = (data - first + part - 1) / part;
	if (count > room || rte_pktmbuf_alloc_bulk(m->pool, pieces, count) < 0) {
		return -ENOBUFS;
	}
	made = 0;
	for (uint32_t at = first; at < data; at += part, made++) {
		uint32_t bytes = RTE_MIN(part, data - at);
		uint32_t more = at + bytes < data ? IPV4_MF : fragment & IPV4_MF;
		uint8_t *to = (uint8_t *)rte_pktmbuf_append(
			pieces[made], (uint16_t)(header_bytes + bytes));

		memcpy(to, header, header_bytes);
		copy_data(m, d->l3_offset + first_bytes + at, bytes, to + header_bytes);
		finish_header(to, header_bytes, bytes, more | ((fragment & IPV4_OFFSET) + at / 8));
	}
	finish_header(ip, first_bytes, first, IPV4_MF | (fragment & IPV4_OFFSET));
	weir_encap_cut(m, d->l3_offset + first_bytes + first);
	return (int)made;
}

// --- IPv6 -----------------------------------------------------------------------------------

#define HEADERS6 (WEIR_IPV6_BYTES + WEIR_FRAGMENT_BYTES)

// Write the headers of a piece. ip: the IPv6 header of the whole packet.
static void write_headers6(
	uint8_t *to, const uint8_t *ip, uint32_t id, uint32_t at, uint32_t bytes, bool last) {
	uint8_t next_header = ip[6];

	memmove(to, ip, WEIR_IPV6_BYTES);
	weir_store16(to + 4, rte_cpu_to_be_16((uint16_t)(WEIR_FRAGMENT_BYTES + bytes)));
	to[6] = IPPROTO_FRAGMENT;
	to[40] = next_header;
	to[41] = 0;
	weir_store16(to + 42, rte_cpu_to_be_16((uint16_t)(at | !last))); // at: a multiple of 8
	weir_store32(to + 44, id);
}

int weir_fragment_split6(struct rte_mbuf *m, uint32_t l3_offset, uint32_t bytes, uint32_t id,
	uint32_t piece_max, struct rte_mbuf **pieces, uint32_t room) {
	uint8_t *frame = rte_pktmbuf_mtod(m, uint8_t *), *ip = frame + l3_offset;
	uint32_t data = bytes - WEIR_IPV6_BYTES;
	uint32_t buffer = rte_pktmbuf_data_room_size(m->pool);
	uint32_t part, count, made = 0;

	if (buffer <= RTE_PKTMBUF_HEADROOM) {
		return -ENOBUFS;
	}
	part = data_max(RTE_MIN(piece_max, buffer - RTE_PKTMBUF_HEADROOM), HEADERS6);
	if (part == 0) {
		return -EMSGSIZE;
	}
	count = (data - 1) / part;
	if (rte_pktmbuf_headroom(m) < WEIR_FRAGMENT_BYTES || count > room ||
		rte_pktmbuf_alloc_bulk(m->pool, pieces, count) < 0) {
		return -ENOBUFS;
	}
	for (uint32_t at = part; at < data; at += part, made++) {
		uint32_t n = RTE_MIN(part, data - at);
		uint8_t *to = (uint8_t *)rte_pktmbuf_append(pieces[made], (uint16_t)(HEADERS6 + n));

		write_headers6(to, ip, id, at, n, at + n == data);
		copy_data(m, l3_offset + WEIR_IPV6_BYTES + at, n, to + HEADERS6);
	}
	rte_pktmbuf_prepend(m, WEIR_FRAGMENT_BYTES);
	memmove(frame - WEIR_FRAGMENT_BYTES, frame, l3_offset);
	write_headers6(ip - WEIR_FRAGMENT_BYTES, ip, id, 0, RTE_MIN(part, data), part >= data);
	weir_encap_cut(m, l3_offset + HEADERS6 + RTE_MIN(part, data));
	return (int)made;
}
