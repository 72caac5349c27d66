// SPDX-License-Identifier: BSD-3-Clause
//
// GRE: a GRE header (RFC 2784) without a checksum. The header has a key (RFC 2890) if a key is
// configured. Fields, as name:bits = value:
//
//   flags:16 = 0x2000 with a key, otherwise 0 | EtherType of the packet:16 | key:32
#include <netinet/in.h>
#include <string.h>

#include "forward.h"

#define GRE_BYTES 4
#define KEY_BYTES 4
#define TYPE_AT 2 // position of the EtherType
#define KEY_PRESENT 0x2000
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd

static uint32_t tail_bytes(const struct weir_forwarding *forwarding) {
	return GRE_BYTES + (forwarding->gre_key != 0 ? KEY_BYTES : 0);
}

static void build(
	const struct weir_forwarding *forwarding, struct weir_backend_row *row, uint8_t *at) {
	weir_forward_put16(at, forwarding->gre_key != 0 ? KEY_PRESENT : 0);
	weir_forward_put16(at + TYPE_AT, 0);
	if (forwarding->gre_key != 0) {
		weir_forward_put16(at + GRE_BYTES, (uint16_t)(forwarding->gre_key >> 16));
		weir_forward_put16(at + GRE_BYTES + 2, (uint16_t)forwarding->gre_key);
	}
	row->inner_at = (uint8_t)(tail_bytes(forwarding) - TYPE_AT);
	row->inner4 = weir_forward_be16(ETHERTYPE_IPV4);
	row->inner6 = weir_forward_be16(ETHERTYPE_IPV6);
}

static void read(const uint8_t *at, size_t bytes, struct weir_forwarding *ret) {
	if (bytes == GRE_BYTES + KEY_BYTES) {
		ret->gre_key = (uint32_t)weir_forward_get16(at + GRE_BYTES) << 16 |
			       weir_forward_get16(at + GRE_BYTES + 2);
	}
}

static int find(const uint8_t *at, size_t bytes, uint8_t *ret_protocol) {
	const int length = bytes >= GRE_BYTES && weir_forward_get16(at) == KEY_PRESENT
				   ? GRE_BYTES + KEY_BYTES
				   : GRE_BYTES;
	uint16_t type;

	if (bytes < (size_t)length || (weir_forward_get16(at) & ~KEY_PRESENT) != 0) {
		return -1;
	}
	type = weir_forward_get16(at + TYPE_AT);
	*ret_protocol = type == ETHERTYPE_IPV4 ? IPPROTO_IPIP : IPPROTO_IPV6;
	return type == ETHERTYPE_IPV4 || type == ETHERTYPE_IPV6 ? length : -1;
}

const struct weir_forwarding_headers weir_forward_gre = {.outer = true,
	.protocol = IPPROTO_GRE,
	.tail_bytes = tail_bytes,
	.build = build,
	.read = read,
	.find = find};
