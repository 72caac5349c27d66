// SPDX-License-Identifier: BSD-3-Clause
//
// Hashes: one for flows on the packet path, one for names. All instances must compute the same
// hashes. The hash of names is equal on every machine, and the hash of flows on every little-endian
// machine. The functions return 64 bits and use no tables.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

// 64 x 64 -> 128 bit multiplication, folded to 64 bits, as in wyhash and mum-hash.
static inline uint64_t weir_hash_mix(uint64_t a, uint64_t b) {
	unsigned __int128 product = (unsigned __int128)a * b;

	return (uint64_t)(product >> 64 ^ product);
}

// A seed, and the values that are derived from the seed for flow hashes. The derived values are
// computed once, because they are the same for all packets.
struct weir_hash_keys {
	uint64_t seed;
	uint64_t source[2], destination[2];
};

static inline struct weir_hash_keys weir_hash_keys_of(uint64_t seed) {
	// Each factor that contains an address includes the seed. A product is 0 if one factor is
	// 0. If such a factor did not include the seed, an attacker could choose an address that
	// makes the factor 0, so that the other fields of the packet would not change the product.
	uint64_t turned = seed << 32 | seed >> 32;

	return (struct weir_hash_keys){.seed = seed,
		.source = {0x9e3779b97f4a7c15ull ^ seed, 0xd1342543de82ef95ull ^ turned},
		.destination = {0x8ebc6af09c88c6e3ull ^ seed, 0x589965cc75374cc3ull ^ turned}};
}

// Returns the hash of an IPv4 flow. addresses: source in the low half; ports: source port in the
// low half; all values in network order, as in the packet.
static inline uint64_t weir_hash_words4(
	uint64_t addresses, uint32_t ports, uint8_t protocol, const struct weir_hash_keys *keys) {
	uint64_t rest = ports ^ (uint64_t)protocol << 32;
	uint64_t mixed = weir_hash_mix(addresses ^ keys->source[0], rest ^ 0xd1342543de82ef95ull);

	return weir_hash_mix(mixed ^ keys->seed, 0xa0761d6478bd642full ^ rest);
}

// Returns the hash of an IPv6 flow. source and destination: 16 bytes each; ports: source port in
// the low half, in network order.
static inline uint64_t weir_hash_words6(const uint8_t *source, const uint8_t *destination,
	uint32_t ports, uint8_t protocol, const struct weir_hash_keys *keys) {
	uint64_t rest = ports ^ (uint64_t)protocol << 32;
	unsigned __int128 from, to;
	uint64_t from_words[2], to_words[2];

	memcpy(from_words, source, sizeof(from_words));
	memcpy(to_words, destination, sizeof(to_words));
	from = (unsigned __int128)(from_words[0] ^ keys->source[0]) *
	       (from_words[1] ^ keys->source[1]);
	// The ports are mixed in here and in the last step. If the ports were mixed in only here,
	// flipping some bits of the ports and the same bits of an address would not change the
	// hash. If they were mixed in only in the last step, the ports would have too little
	// effect.
	to = (unsigned __int128)(to_words[0] ^ keys->destination[0]) *
	     (to_words[1] ^ keys->destination[1] ^ rest);
	return weir_hash_mix((uint64_t)from ^ (uint64_t)(to >> 64),
		(uint64_t)(from >> 64) ^ (uint64_t)to ^ 0xa0761d6478bd642full ^ rest);
}

// Returns the hash of an IPv4 flow from separate addresses and ports, in network order.
static inline uint64_t weir_hash_ipv4(uint32_t source, uint32_t destination, uint16_t source_port,
	uint16_t destination_port, uint8_t protocol, uint64_t seed) {
	struct weir_hash_keys keys = weir_hash_keys_of(seed);

	return weir_hash_words4(source | (uint64_t)destination << 32,
		source_port | (uint32_t)destination_port << 16, protocol, &keys);
}

static inline uint64_t weir_hash_ipv6(const uint8_t *source, const uint8_t *destination,
	uint16_t source_port, uint16_t destination_port, uint8_t protocol, uint64_t seed) {
	struct weir_hash_keys keys = weir_hash_keys_of(seed);

	return weir_hash_words6(source, destination, source_port | (uint32_t)destination_port << 16,
		protocol, &keys);
}

// Returns the hash of arbitrary bytes, for identities (service and backend names). Not used on the
// packet path.
uint64_t weir_hash_bytes(const void *data, size_t bytes, uint64_t seed);
