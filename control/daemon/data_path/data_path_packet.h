// SPDX-License-Identifier: BSD-3-Clause
//
// Parses the packets that the kernel sends for connections via the data path.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"

// A TCP or UDP packet sent by the kernel. It has no IPv6 extension headers and is not a fragment.
struct weir_data_path_packet {
	struct weir_address source, destination;
	uint16_t source_port, destination_port; // host order
	uint8_t protocol; // IPPROTO_TCP or IPPROTO_UDP
	bool reset; // TCP: RST
	bool acknowledges; // TCP: ACK, so this host has received a packet from the backend
};

// Parses a packet. Returns false if the packet is malformed or a fragment, is neither TCP nor UDP,
// or has IPv6 extension headers.
bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret);
