// SPDX-License-Identifier: BSD-3-Clause
//
// Packets of connections via the data path, as the kernel sends them.
//
// Threads: any; pure.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

// A TCP packet sent by the kernel. It has no IPv6 extension headers and is not a fragment.
struct weir_data_path_packet {
	struct weir_address source, destination;
	uint16_t source_port, destination_port; // host order
	bool reset; // RST
	bool acknowledges; // ACK: this host has received a packet from the backend
};

// Parses a TCP packet. Returns false if the packet is malformed or a fragment, is not TCP, or has
// IPv6 extension headers.
bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret);
