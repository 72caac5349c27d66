// SPDX-License-Identifier: BSD-3-Clause
//
// L2: the packet is sent unchanged, without an outer IP header, to the backend's MAC address. The
// EtherType depends on the family of the packet.
#include "forward.h"

#define ETHERTYPE_BYTES 2
#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd

static uint32_t tail_bytes(const struct weir_forwarding *forwarding) {
	(void)forwarding;
	return 0;
}

static void build(
	const struct weir_forwarding *forwarding, struct weir_backend_row *row, uint8_t *at) {
	(void)forwarding;
	(void)at;
	row->inner_at = ETHERTYPE_BYTES;
	row->inner4 = weir_forward_be16(ETHERTYPE_IPV4);
	row->inner6 = weir_forward_be16(ETHERTYPE_IPV6);
}

const struct weir_forwarding_headers weir_forward_l2 = {.tail_bytes = tail_bytes, .build = build};
