// SPDX-License-Identifier: BSD-3-Clause
#include "forwarding.h"

#include <netinet/in.h>
#include <string.h>

#include "forward.h"

const struct weir_forwarding_headers *const weir_forwarding_headers[WEIR_FORWARDING_COUNT] = {
#define X(name, member, key, text) &weir_forward_##member,
	WEIR_FORWARDING_MODES(X)
#undef X
};

uint32_t weir_forwarding_overhead(const struct weir_forwarding *forwarding, unsigned int family) {
	const struct weir_forwarding_headers *headers = weir_forwarding_headers[forwarding->mode];
	uint32_t outer = family == 6 ? WEIR_OUTER_IPV6_BYTES : WEIR_OUTER_IPV4_BYTES;

	return (headers->outer ? outer : 0) + headers->tail_bytes(forwarding);
}

bool weir_forwarding_has_protocol(enum weir_forwarding_mode mode, uint8_t protocol) {
	const struct weir_forwarding_headers *headers = weir_forwarding_headers[mode];

	if (headers->protocol != 0) {
		return headers->protocol == protocol;
	}
	return headers->outer && (protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6);
}

static void read_tail(const uint8_t *at, size_t bytes, struct weir_forwarding *forwarding) {
	const struct weir_forwarding_headers *headers = weir_forwarding_headers[forwarding->mode];

	if (headers->read != NULL) {
		headers->read(at, bytes, forwarding);
	}
}

int weir_forwarding_find(uint8_t protocol, const uint8_t *at, size_t bytes,
	struct weir_forwarding *ret, uint8_t *ret_protocol) {
	int r = -1;

	*ret = (struct weir_forwarding){.mode = WEIR_FORWARDING_IPIP, .gue_port = WEIR_GUE_PORT};
	if (protocol == IPPROTO_IPIP || protocol == IPPROTO_IPV6) {
		*ret_protocol = protocol;
		return 0;
	}
	for (unsigned int i = 0; protocol != 0 && r < 0 && i < WEIR_FORWARDING_COUNT; i++) {
		if (weir_forwarding_headers[i]->protocol == protocol) {
			ret->mode = (uint8_t)i;
			r = weir_forwarding_headers[i]->find(at, bytes, ret_protocol);
			if (r >= 0) {
				read_tail(at, (size_t)r, ret);
			}
		}
	}
	return r;
}

bool weir_forwarding_read(const struct weir_backend_row *row, struct weir_forwarding *ret) {
	struct weir_forwarding forwarding = {.mode = row->forwarding, .gue_port = WEIR_GUE_PORT};

	if (row->forwarding >= WEIR_FORWARDING_COUNT ||
		row->header_bytes > WEIR_OUTER_HEADER_BYTES ||
		row->tail_bytes > row->header_bytes) {
		return false;
	}
	read_tail(row->header + row->header_bytes - row->tail_bytes, row->tail_bytes, &forwarding);
	if (weir_forwarding_headers[forwarding.mode]->tail_bytes(&forwarding) != row->tail_bytes) {
		return false;
	}
	*ret = forwarding;
	return true;
}
