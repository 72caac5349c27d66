// SPDX-License-Identifier: BSD-3-Clause
//
// GUE: a UDP header and the header of generic UDP encapsulation, version 0, without optional fields
// (draft-ietf-intarea-gue-09, 3). Fields of this header, as name:bits = value:
//
//   version:2 = 0 | control:1 = 0 | header length:5 = 0 | protocol:8 | flags:16 = 0
//
// The worker fills in the UDP length and the UDP source port. The source port is derived from the
// hash of the flow, so that routers (ECMP) and the receive queues of the backend spread the flows.
// The UDP checksum is 0, which is permitted for tunnels over IPv4 (RFC 768) and over IPv6 (RFC
// 6935, RFC 6936): the packet inside has its own checksum.
#include <netinet/in.h>
#include <string.h>

#include "forward.h"

#define UDP_BYTES 8
#define GUE_BYTES 4
#define IPV4_INSIDE 4
#define IPV6_INSIDE 41

static uint32_t tail_bytes(const struct weir_forwarding *forwarding) {
	(void)forwarding;
	return UDP_BYTES + GUE_BYTES;
}

static void build(
	const struct weir_forwarding *forwarding, struct weir_backend_row *row, uint8_t *at) {
	memset(at, 0, UDP_BYTES + GUE_BYTES);
	weir_forward_put16(at + 2, forwarding->gue_port);
	row->udp_at = UDP_BYTES + GUE_BYTES;
	row->inner_at = GUE_BYTES; // version 0, and the protocol
	row->inner4 = weir_forward_be16(IPV4_INSIDE);
	row->inner6 = weir_forward_be16(IPV6_INSIDE);
}

static void read(const uint8_t *at, size_t bytes, struct weir_forwarding *ret) {
	if (bytes == UDP_BYTES + GUE_BYTES) {
		ret->gue_port = weir_forward_get16(at + 2);
	}
}

static int find(const uint8_t *at, size_t bytes, uint8_t *ret_protocol) {
	const uint8_t *gue = at + UDP_BYTES;

	if (bytes < UDP_BYTES + GUE_BYTES || gue[0] != 0 || gue[2] != 0 || gue[3] != 0 ||
		(gue[1] != IPV4_INSIDE && gue[1] != IPV6_INSIDE)) {
		return -1;
	}
	*ret_protocol = gue[1];
	return UDP_BYTES + GUE_BYTES;
}

const struct weir_forwarding_headers weir_forward_gue = {.outer = true,
	.protocol = IPPROTO_UDP,
	.tail_bytes = tail_bytes,
	.build = build,
	.read = read,
	.find = find};
