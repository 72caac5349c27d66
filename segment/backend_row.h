// SPDX-License-Identifier: BSD-3-Clause
//
// Backend row: the prebuilt headers of one backend. Built by control, copied by workers.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "forwarding.h"
#include "layout.h"

// Returns whether the row permits new flows, regardless of WEIR_BACKEND_OUTSIDE.
static inline bool weir_backend_row_is_open(const struct weir_backend_row *row) {
	return (row->flags & WEIR_BACKEND_PRESENT) != 0 && (row->flags & WEIR_BACKEND_CLOSED) == 0;
}

struct weir_backend_path {
	uint8_t address[16]; // address of the backend; IPv4 in the first 4 bytes
	uint8_t source[16]; // outer source address, of the family of `address`
	uint8_t family; // 4 or 6
	uint8_t port; // index of the port to send on
	uint8_t next_hop_mac[6];
	uint8_t port_mac[6];
	uint16_t vlan; // 0 = untagged
	uint16_t mtu; // path MTU: largest IP packet to the backend, with its outer headers
	uint16_t service;
	uint8_t resolved; // next_hop_mac is valid
	uint32_t max_active_flows; // limit of active flows, as in the row; 0 = no limit
	uint8_t state; // WEIR_BACKEND_CLOSED to WEIR_BACKEND_OUTSIDE
	struct weir_forwarding forwarding;
	uint8_t source_bits; // IPv4: number of low bits of source that vary by flow, and are 0 in
			     // `source`; at most WEIR_SOURCE_BITS_MAX
};

// Fill a row. The header of the row consists of an Ethernet header, an optional VLAN tag, an outer
// IPv4 header (DF set, TTL 64) or IPv6 header (hop limit 64) if the forwarding mode has one, and
// the headers that the mode adds (forwarding.h). The worker fills in the fields that depend on the
// packet (encap.h).
void weir_backend_row_build(const struct weir_backend_path *path, struct weir_backend_row *ret);

// Copies the header of a built row, and fills in the fields that depend on the packet. A worker
// puts the same header in front of the packet (encap.h); this slower function is for processes that
// send single packets. packet: a valid IPv4 or IPv6 packet. hash: the hash of the packet's flow.
// ret: row->header_bytes bytes.
void weir_backend_row_fill(const struct weir_backend_row *row, const uint8_t *packet, size_t bytes,
	uint64_t hash, uint8_t *ret);
