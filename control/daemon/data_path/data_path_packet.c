// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_outer.h"

#include <netinet/in.h>
#include <string.h>

#include "backend_row.h"

#define IPV4_BYTES 20
#define IPV6_BYTES 40
#define TCP_BYTES 20
#define TCP_FLAGS 13 // offset of the flags in the TCP header
#define RST 0x04
#define ACK 0x10

static uint16_t get16(const uint8_t *at) {
	return (uint16_t)(at[0] << 8 | at[1]);
}

static void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

static uint16_t checksum(const uint8_t *header) {
	uint32_t sum = 0;

	for (size_t i = 0; i < IPV4_BYTES; i += 2) {
		sum += get16(header + i);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~((sum & 0xffff) + (sum >> 16));
}

void weir_data_path_outer_init(struct weir_data_path_outer *outer,
	const struct weir_address *backend, const struct weir_address *source, uint8_t source_bits,
	uint32_t hash) {
	struct weir_backend_path path = {.family = backend->family};
	struct weir_backend_row row;
	uint32_t label = hash >> 12;
	uint8_t *header = outer->header;

	memcpy(path.address, backend->bytes, sizeof(path.address));
	memcpy(path.source, source->bytes, sizeof(path.source));
	weir_backend_row_build(&path, &row);
	outer->bytes = (uint8_t)(row.header_bytes - row.l2_bytes);
	memcpy(header, row.header + row.l2_bytes, outer->bytes);
	if (backend->family == 4) {
		put16(header + 14, get16(header + 14) | (hash & ((1u << source_bits) - 1)));
	} else {
		label += label == 0; // avoid 0, which means that there is no label
		header[1] = (uint8_t)(label >> 16);
		put16(header + 2, label);
	}
}

size_t weir_data_path_outer_fill(const struct weir_data_path_outer *outer, const uint8_t *packet,
	size_t bytes, uint8_t ret[WEIR_DATA_PATH_OUTER_BYTES]) {
	bool inner4 = packet[0] >> 4 == 4;
	// DSCP and ECN: one byte in IPv4, spread over two bytes in IPv6.
	uint8_t tos = inner4 ? packet[1] : (uint8_t)(packet[0] << 4 | packet[1] >> 4);
	uint8_t protocol = inner4 ? IPPROTO_IPIP : IPPROTO_IPV6;

	memcpy(ret, outer->header, outer->bytes);
	if (outer->bytes == IPV4_BYTES) {
		ret[1] = tos;
		put16(ret + 2, (uint32_t)(bytes + IPV4_BYTES));
		ret[9] = protocol;
		put16(ret + 10, checksum(ret));
	} else {
		ret[0] |= tos >> 4;
		ret[1] |= (uint8_t)(tos << 4);
		put16(ret + 4, (uint32_t)bytes);
		ret[6] = protocol;
	}
	return outer->bytes;
}

bool weir_data_path_packet_read(
	const uint8_t *packet, size_t bytes, struct weir_data_path_packet *ret) {
	uint8_t family = bytes > 0 ? packet[0] >> 4 : 0;
	size_t header = IPV6_BYTES;
	const uint8_t *tcp;

	if (family == 4 && bytes >= IPV4_BYTES) {
		header = (size_t)(packet[0] & 0x0f) * 4;
		if (header < IPV4_BYTES || get16(packet + 2) != bytes ||
			(get16(packet + 6) & 0x3fff) != 0 || packet[9] != IPPROTO_TCP) {
			return false;
		}
	} else if (family != 6 || bytes < IPV6_BYTES || get16(packet + 4) != bytes - IPV6_BYTES ||
		   packet[6] != IPPROTO_TCP) {
		return false;
	}
	if (bytes < header + TCP_BYTES) {
		return false;
	}
	tcp = packet + header;
	*ret = (struct weir_data_path_packet){
		.source = weir_address_of(family, packet + (family == 4 ? 12 : 8)),
		.destination = weir_address_of(family, packet + (family == 4 ? 16 : 24)),
		.source_port = get16(tcp),
		.destination_port = get16(tcp + 2),
		.reset = (tcp[TCP_FLAGS] & RST) != 0,
		.acknowledges = (tcp[TCP_FLAGS] & ACK) != 0,
	};
	return true;
}
