// SPDX-License-Identifier: BSD-3-Clause
//
// The outer header of a connection along the data path, and what goes into it: IP in IP as the
// dataplane's (docs/reference/packet-formats.md), from the same row that a worker copies.
//
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_DATA_PATH_OUTER_BYTES 40 // at most

struct weir_data_path_outer {
	uint8_t header[WEIR_DATA_PATH_OUTER_BYTES];
	uint8_t bytes; // 20 or 40
};

// A TCP packet as the kernel makes them: no IPv6 extension headers, no fragments.
struct weir_data_path_packet {
	struct weir_address source, destination;
	uint16_t source_port, destination_port; // host order
	bool reset; // RST
	bool acknowledges; // ACK: something has come back
};

// source: of the family of the backend. source_bits: IPv4, so many low bits of it are the flow's.
// hash: of the flow; gives these bits, and the flow label of IPv6.
void weir_data_path_outer_init(struct weir_data_path_outer *outer,
	const struct weir_address *backend, const struct weir_address *source, uint8_t source_bits,
	uint32_t hash);

// The header in front of one packet, a valid one. Returns its length.
size_t weir_data_path_outer_fill(const struct weir_data_path_outer *outer, const uint8_t *packet,
	size_t bytes, uint8_t ret[WEIR_DATA_PATH_OUTER_BYTES]);

// Returns false: it is something else, or damaged.
bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret);
