// SPDX-License-Identifier: BSD-3-Clause
#include "backend_row.h"

#include <netinet/in.h>
#include <string.h>

#define ETHERTYPE_VLAN 0x8100
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERNET_BYTES 14
#define VLAN_BYTES 4
#define TTL 64

static uint8_t *put16(uint8_t *at, uint16_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
	return at + 2;
}

static uint8_t *put(uint8_t *at, const uint8_t *bytes, size_t n) {
	memcpy(at, bytes, n);
	return at + n;
}

static uint8_t *put_ethernet(uint8_t *at, const struct weir_backend_path *path) {
	at = put(at, path->next_hop_mac, sizeof(path->next_hop_mac));
	at = put(at, path->port_mac, sizeof(path->port_mac));
	if (path->vlan != 0) {
		at = put16(at, ETHERTYPE_VLAN);
		at = put16(at, path->vlan & 0x0fff);
	}
	return put16(at, path->family == 6 ? ETHERTYPE_IPV6 : ETHERTYPE_IPV4);
}

// Returns the protocol number to store in the outer IP header of a row. If the forwarding mode has
// no fixed protocol (IP in IP), returns 4; the worker replaces it with 41 when it forwards an IPv6
// packet.
static unsigned int protocol_of(const struct weir_backend_path *path) {
	unsigned int protocol = weir_forwarding_headers[path->forwarding.mode]->protocol;

	return protocol != 0 ? protocol : IPPROTO_IPIP;
}

static uint8_t *put_ipv4(uint8_t *at, const struct weir_backend_path *path) {
	at = put16(at, 0x4500);
	at = put16(at, 0); // total length
	at = put16(at, 0); // IPv4 identification: not needed, because DF is set
	at = put16(at, 0x4000);
	at = put16(at, (uint16_t)(TTL << 8 | protocol_of(path)));
	at = put16(at, 0); // checksum
	at = put(at, path->source, 4);
	return put(at, path->address, 4);
}

static uint8_t *put_ipv6(uint8_t *at, const struct weir_backend_path *path) {
	at = put16(at, 0x6000);
	at = put16(at, 0); // flow label
	at = put16(at, 0); // payload length
	at = put16(at, (uint16_t)(protocol_of(path) << 8 | TTL));
	at = put(at, path->source, 16);
	return put(at, path->address, 16);
}

static uint16_t sum16(const uint8_t *at, size_t bytes) {
	uint32_t sum = 0;

	for (size_t i = 0; i < bytes; i += 2) {
		sum += (uint32_t)at[i] << 8 | at[i + 1];
	}
	while (sum > 0xffff) {
		sum = (sum & 0xffff) + (sum >> 16);
	}
	return (uint16_t)sum;
}

void weir_backend_row_build(const struct weir_backend_path *path, struct weir_backend_row *ret) {
	const struct weir_forwarding_headers *mode = weir_forwarding_headers[path->forwarding.mode];
	struct weir_backend_row row = {
		.flags = (uint8_t)(WEIR_BACKEND_PRESENT | path->state),
		.port = path->port,
		.outer_family = !mode->outer        ? 0
				: path->family == 6 ? 6
						    : 4,
		.l2_bytes = ETHERNET_BYTES + (path->vlan != 0 ? VLAN_BYTES : 0),
		.mtu = path->mtu,
		.service = path->service,
		.max_active_flows = path->max_active_flows,
		.forwarding = path->forwarding.mode,
		.tail_bytes = (uint8_t)mode->tail_bytes(&path->forwarding),
	};
	uint8_t *ip = put_ethernet(row.header, path), *tail = ip;

	if (path->resolved) {
		row.flags |= WEIR_BACKEND_RESOLVED;
	}
	if (row.outer_family == 6) {
		tail = put_ipv6(ip, path);
	} else if (row.outer_family == 4) {
		tail = put_ipv4(ip, path);
		row.checksum_base = sum16(ip, WEIR_OUTER_IPV4_BYTES);
		row.source_bits = path->source_bits;
	}
	mode->build(&path->forwarding, &row, tail);
	row.header_bytes = (uint8_t)(tail - row.header + row.tail_bytes);
	*ret = row;
}

static void fill_ipv4(uint8_t *ip, const struct weir_backend_row *row, unsigned int tos,
	size_t bytes, uint64_t hash) {
	const uint16_t mask = __builtin_bswap16((uint16_t)((1u << row->source_bits) - 1));
	const uint16_t low = (uint16_t)(hash >> 16) & mask; // in network order

	ip[1] = (uint8_t)tos;
	put16(ip + 2, (uint16_t)bytes);
	put16(ip + 10, 0);
	ip[14] |= (uint8_t)low;
	ip[15] |= (uint8_t)(low >> 8);
	put16(ip + 10, (uint16_t)~sum16(ip, WEIR_OUTER_IPV4_BYTES));
}

static void fill_ipv6(uint8_t *ip, unsigned int tos, size_t bytes, uint64_t hash) {
	uint32_t label = (uint32_t)(hash >> 12) & 0xfffff;

	label += label == 0; // 0 means that there is no label
	ip[0] = (uint8_t)(0x60 | tos >> 4);
	ip[1] = (uint8_t)(tos << 4 | label >> 16);
	put16(ip + 2, (uint16_t)label);
	put16(ip + 4, (uint16_t)(bytes - WEIR_OUTER_IPV6_BYTES));
}

void weir_backend_row_fill(const struct weir_backend_row *row, const uint8_t *packet, size_t bytes,
	uint64_t hash, uint8_t *ret) {
	const bool inner4 = packet[0] >> 4 == 4;
	// DSCP and ECN: one byte in IPv4, spread over two bytes in IPv6.
	const unsigned int tos =
		inner4 ? packet[1] : (uint8_t)((unsigned int)packet[0] << 4 | packet[1] >> 4);
	const uint16_t inner = inner4 ? row->inner4 : row->inner6;
	uint8_t *ip = ret + row->l2_bytes, *end = ret + row->header_bytes;
	const size_t length = bytes + (size_t)(end - ip);

	memcpy(ret, row->header, row->header_bytes);
	if (row->outer_family != 0 && row->tail_bytes == 0) {
		ip[row->outer_family == 4 ? 9 : 6] = inner4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	}
	if (row->outer_family == 4) {
		fill_ipv4(ip, row, tos, length, hash);
	} else if (row->outer_family == 6) {
		fill_ipv6(ip, tos, length, hash);
	}
	if (row->inner_at > 0) {
		memcpy(end - row->inner_at, &inner, sizeof(inner));
	}
	if (row->udp_at > 0) {
		put16(end - row->udp_at, (uint16_t)(0xc000 | (hash >> 16 & 0x3fff)));
		put16(end - row->udp_at + 4, (uint16_t)(row->udp_at + bytes));
	}
}
