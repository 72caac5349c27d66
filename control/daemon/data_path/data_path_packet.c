// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_packet.h"

#include <netinet/in.h>

#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define TCP_BYTES 20
#define UDP_BYTES 8
#define TCP_FLAGS 13 // offset of the flags in the TCP header
#define RST 0x04
#define ACK 0x10

static uint16_t get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret) {
	uint8_t family = bytes > 0 ? packet[0] >> 4 : 0;
	size_t header = IPV6_BYTES;
	const uint8_t *ports;
	uint8_t protocol;

	if (family == 4 && bytes >= IPV4_BYTES) {
		header = (size_t)(packet[0] & 0x0f) * 4;
		if (header < IPV4_BYTES || get16(packet + 2) != bytes ||
			(get16(packet + 6) & 0x3fff) != 0) {
			return false;
		}
	} else if (family != 6 || bytes < IPV6_BYTES || get16(packet + 4) != bytes - IPV6_BYTES) {
		return false;
	}
	protocol = packet[family == 4 ? 9 : 6];
	if ((protocol != IPPROTO_TCP || bytes < header + TCP_BYTES) &&
		(protocol != IPPROTO_UDP || bytes < header + UDP_BYTES)) {
		return false;
	}
	ports = packet + header;
	*ret = (struct weir_data_path_packet){
		.source = weir_address_of(family, packet + (family == 4 ? 12 : 8)),
		.destination = weir_address_of(family, packet + (family == 4 ? 16 : 24)),
		.source_port = get16(ports),
		.destination_port = get16(ports + 2),
		.protocol = protocol,
		.reset = protocol == IPPROTO_TCP && (ports[TCP_FLAGS] & RST) != 0,
		.acknowledges = protocol == IPPROTO_TCP && (ports[TCP_FLAGS] & ACK) != 0,
	};
	return true;
}
