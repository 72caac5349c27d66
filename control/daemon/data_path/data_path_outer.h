// SPDX-License-Identifier: BSD-3-Clause
//
// The outer header of a connection via the data path, and its inner packets: IP in IP like the
// dataplane's (docs/reference/packet-formats.md), from the same backend row that a worker copies.
//
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_DATA_PATH_OUTER_BYTES 40 // maximum

struct weir_data_path_outer {
	uint8_t header[WEIR_DATA_PATH_OUTER_BYTES];
	uint8_t bytes; // 20 or 40
};

// A TCP packet as sent by the kernel: no IPv6 extension headers, no fragments.
struct weir_data_path_packet {
	struct weir_address source, destination;
	uint16_t source_port, destination_port; // host order
	bool reset; // RST
	bool acknowledges; // ACK: a packet of the backend arrived
};

// source: same family as the backend. source_bits: number of low bits of an IPv4 source that vary
// by flow. hash: of the flow; determines these bits, and the flow label of IPv6.
void weir_data_path_outer_init(struct weir_data_path_outer *outer,
	const struct weir_address *backend, const struct weir_address *source, uint8_t source_bits,
	uint32_t hash);

// The outer header of one valid packet. Returns its length.
size_t weir_data_path_outer_fill(const struct weir_data_path_outer *outer, const uint8_t *packet,
	size_t bytes, uint8_t ret[WEIR_DATA_PATH_OUTER_BYTES]);

// Returns false if the packet is not such a TCP packet, or is malformed.
bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret);
