// SPDX-License-Identifier: BSD-3-Clause
//
// IP in IP: only an outer IP header, whose protocol is 4 or 41 (RFC 2003, RFC 2473, RFC 4213).
#include "forward.h"

static uint32_t tail_bytes(const struct weir_forwarding *forwarding) {
	(void)forwarding;
	return 0;
}

static void build(
	const struct weir_forwarding *forwarding, struct weir_backend_row *row, uint8_t *at) {
	(void)forwarding;
	(void)row;
	(void)at;
}

const struct weir_forwarding_headers weir_forward_ipip = {
	.outer = true, .tail_bytes = tail_bytes, .build = build};
