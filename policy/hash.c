// SPDX-License-Identifier: BSD-3-Clause
#include "hash.h"

// Reads a word as little-endian on every host, because all instances must compute equal hashes.
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
