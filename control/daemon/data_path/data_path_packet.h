// SPDX-License-Identifier: BSD-3-Clause
//
// Outer headers and inner packets of connections via the data path. The packets are encapsulated as
// in the dataplane: IP in IP (docs/reference/packet-formats.md). The function that builds the
// outer headers of backends for workers (backend_row.h) also builds these outer headers.
//
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

#define WEIR_DATA_PATH_OUTER_BYTES 40 // maximum length of an outer header

struct weir_data_path_outer {
	uint8_t header[WEIR_DATA_PATH_OUTER_BYTES];
	uint8_t bytes; // 20 or 40
};

// A TCP packet sent by the kernel. It has no IPv6 extension headers and is not a fragment.
struct weir_data_path_packet {
	struct weir_address source, destination;
	uint16_t source_port, destination_port; // host order
	bool reset; // RST
	bool acknowledges; // ACK: this host has received a packet from the backend
};

// Prepares the outer header of a flow's packets. source: an address of the backend's family.
// source_bits: number of low bits of an IPv4 source that vary by flow. hash: hash of the flow,
// which determines these bits, or the flow label in IPv6.
void weir_data_path_outer_init(struct weir_data_path_outer *outer,
	const struct weir_address *backend, const struct weir_address *source, uint8_t source_bits,
	uint32_t hash);

// Write the outer header of one valid packet. Returns the header's length.
size_t weir_data_path_outer_fill(const struct weir_data_path_outer *outer, const uint8_t *packet,
	size_t bytes, uint8_t ret[WEIR_DATA_PATH_OUTER_BYTES]);

// Parses a TCP packet. Returns false if the packet is malformed or a fragment, is not TCP, or has
// IPv6 extension headers.
bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret);
