// SPDX-License-Identifier: BSD-3-Clause
//
// Hashes: one for flows on the packet path, one for names. The same on every machine, so that
// instances agree. Portable C, no tables.
#pragma once

#include <stddef.h>
#include <stdint.h>

// 64 x 64 -> 128 bit multiplication, folded. After the well-known wyhash/mum construction.
static inline uint64_t weir_hash_mix(uint64_t a, uint64_t b) {
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)product ^ (uint64_t)(product >> 64);
}

// Hash of an IPv4 flow. Addresses and ports as they are in the packet (network order).
static inline uint64_t weir_hash_ipv4(uint32_t source, uint32_t destination, uint16_t source_port,
	uint16_t destination_port, uint8_t protocol, uint64_t seed) {
	uint64_t a = (uint64_t)source << 32 | destination;
	uint64_t b = (uint64_t)source_port << 32 | (uint64_t)destination_port << 16 | protocol;

	a = weir_hash_mix(a ^ 0x9e3779b97f4a7c15ull ^ seed, b ^ 0xd1342543de82ef95ull);
	return weir_hash_mix(a ^ seed, 0xa0761d6478bd642full ^ b);
}

// Hash of an IPv6 flow. source and destination: 16 bytes each.
uint64_t weir_hash_ipv6(const uint8_t *source, const uint8_t *destination, uint16_t source_port,
	uint16_t destination_port, uint8_t protocol, uint64_t seed);

// Hash of any bytes, for identities (service and backend names). Never on the packet path.
uint64_t weir_hash_bytes(const void *data, size_t bytes, uint64_t seed);
