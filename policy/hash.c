// SPDX-License-Identifier: BSD-3-Clause
#include "hash.h"

#include <string.h>

static uint64_t load64(const uint8_t *bytes) {
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

uint64_t weir_hash_ipv6(const uint8_t *source, const uint8_t *destination, uint16_t source_port,
	uint16_t destination_port, uint8_t protocol, uint64_t seed) {
	uint64_t ports = (uint64_t)source_port << 32 | (uint64_t)destination_port << 16 | protocol;
	// A product is 0 when one factor is: without the seed in both, an address could be chosen
	// that cancels the other half.
	uint64_t turned = seed << 32 | seed >> 32;
	uint64_t s = weir_hash_mix(load64(source) ^ 0x9e3779b97f4a7c15ull ^ seed,
		load64(source + 8) ^ 0xd1342543de82ef95ull ^ turned);
	uint64_t d = weir_hash_mix(load64(destination) ^ 0x8ebc6af09c88c6e3ull ^ seed,
		load64(destination + 8) ^ 0x589965cc75374cc3ull ^ turned);

	// Source and destination play different parts, or both directions would collide.
	s = weir_hash_mix(s ^ 0xe7037ed1a0b428dbull, d ^ seed);
	return weir_hash_mix(s ^ seed, 0xa0761d6478bd642full ^ ports);
}

// Little endian whatever the host, so that all instances agree.
static uint64_t word_at(const uint8_t *bytes, size_t n) {
	uint64_t word = 0;

	for (size_t i = 0; i < n; i++) {
		word |= (uint64_t)bytes[i] << (8 * i);
	}
	return word;
}

uint64_t weir_hash_bytes(const void *data, size_t bytes, uint64_t seed) {
	const uint8_t *p = data;
	uint64_t hash = weir_hash_mix(seed ^ 0x9e3779b97f4a7c15ull, bytes ^ 0xd1342543de82ef95ull);

	while (bytes >= 8) {
		hash = weir_hash_mix(
			hash ^ 0xe7037ed1a0b428dbull, word_at(p, 8) ^ 0x8ebc6af09c88c6e3ull);
		p += 8;
		bytes -= 8;
	}
	if (bytes > 0) {
		hash = weir_hash_mix(
			hash ^ 0x589965cc75374cc3ull, word_at(p, bytes) ^ 0x1d8e4e27c47d124full);
	}
	return weir_hash_mix(hash ^ seed, 0xa0761d6478bd642full);
}
