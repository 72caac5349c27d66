// SPDX-License-Identifier: BSD-3-Clause
//
// Next hops: whether a next hop can be used with a forwarding mode, and the MTU of the path.
#include "forwarding.h"
#include "tables.h"

bool weir_next_hop_serves(
	const struct weir_next_hop *hop, const struct weir_forwarding *forwarding) {
	return hop->resolved &&
	       (weir_forwarding_headers[forwarding->mode]->outer ? hop->source.family != 0
								 : hop->on_link);
}

uint16_t weir_next_hop_mtu(
	const struct weir_next_hop *hop, const struct weir_forwarding *forwarding) {
	return weir_forwarding_headers[forwarding->mode]->outer ? hop->mtu : hop->route_mtu;
}

bool weir_next_hop_has_source(const struct weir_next_hop *hop, const struct weir_address *source) {
	struct weir_address masked = *source;

	for (unsigned int i = 0; i < hop->source_bits && source->family == 4; i++) {
		masked.bytes[3 - i / 8] &= (uint8_t)~(1u << i % 8);
	}
	return weir_address_equal(&hop->source, &masked);
}
