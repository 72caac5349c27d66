// SPDX-License-Identifier: BSD-3-Clause
#include "tuples.h"

#include <string.h>

#include "hash.h"

#define HALF_BITS 24
#define HALF_MASK ((1u << HALF_BITS) - 1)
#define ROUNDS 4

// Clients have ports from 1024, and unicast addresses with a first byte of 1 to 223, except 127
// (loopback) and 198 (the network of the VIPs).
#define PORT_FIRST 1024
#define PORTS (65536 - PORT_FIRST)
#define FIRST_BYTES 221u
#define CLIENTS ((uint64_t)FIRST_BYTES * (1u << 24) * PORTS)
_Static_assert(CLIENTS >= WEIR_BENCH_NUMBERS, "each number must have a tuple");
_Static_assert(CLIENTS <= 1ull << (2 * HALF_BITS), "the permutation must cover all clients");

// Computes the permutation with a Feistel network. Each round of such a network is invertible for
// any round function, so different numbers have different results.
uint64_t weir_bench_permute(uint64_t seed, uint64_t number) {
	uint32_t left = (uint32_t)(number >> HALF_BITS) & HALF_MASK;
	uint32_t right = (uint32_t)number & HALF_MASK;

	for (uint64_t round = 0; round < ROUNDS; round++) {
		uint64_t mixed = weir_hash_mix(right + (round << 32) + 0x9e3779b97f4a7c15ull,
			seed ^ 0xd6e8feb86659fd93ull);
		uint32_t next = left ^ ((uint32_t)(mixed >> 20) & HALF_MASK);

		left = right;
		right = next;
	}
	return (uint64_t)left << HALF_BITS | right;
}

uint16_t weir_bench_service(const struct weir_bench_tuples *tuples, uint64_t number) {
	uint64_t mixed =
		weir_hash_mix(number + 0xa0761d6478bd642full, tuples->seed ^ 0xe7037ed1a0b428dbull);

	return (uint16_t)(((mixed & 0xffffffff) * tuples->services) >> 32);
}

void weir_bench_vip(uint8_t family, uint16_t service, uint8_t ret[16]) {
	memset(ret, 0, 16);
	if (family == 4) { // 198.18.0.0/15 is reserved for benchmarks
		ret[0] = 198;
		ret[1] = 18;
		ret[2] = (uint8_t)(service >> 8);
		ret[3] = (uint8_t)service;
		return;
	}
	memcpy(ret, (const uint8_t[]){0x20, 0x01, 0x00, 0x02}, 4); // 2001:2::/48, for benchmarks
	ret[14] = (uint8_t)(service >> 8);
	ret[15] = (uint8_t)service;
}

// Maps a number to a client. Repeats the permutation until the value is in range, so that different
// numbers give different clients.
static uint64_t client(uint64_t seed, uint64_t number) {
	uint64_t permuted = number;

	do {
		permuted = weir_bench_permute(seed, permuted);
	} while (permuted >= CLIENTS);
	return permuted;
}

void weir_bench_tuple(
	const struct weir_bench_tuples *tuples, uint64_t number, struct weir_bench_tuple *ret) {
	uint64_t permuted = client(tuples->seed, number);
	uint32_t address = (uint32_t)(permuted / PORTS);
	uint32_t first = (address >> 24) + 1;

	memset(ret->source, 0, sizeof(ret->source));
	if (tuples->family == 4) {
		first += first >= 127;
		first += first >= 198;
		ret->source[0] = (uint8_t)first;
		ret->source[1] = (uint8_t)(address >> 16);
		ret->source[2] = (uint8_t)(address >> 8);
		ret->source[3] = (uint8_t)address;
	} else {
		// The lower half is unique for each address. The upper half is pseudo-random, so
		// that nearly all addresses are in different networks.
		uint64_t low = address * 0x9e3779b97f4a7c15ull;
		uint64_t high = weir_hash_mix(low, tuples->seed ^ 0x8ebc6af09c88c6e3ull);

		memcpy(ret->source, &high, 8);
		memcpy(ret->source + 8, &low, 8);
		ret->source[0] = 0x2a; // a global unicast address that the balancer does not use
	}
	ret->family = tuples->family;
	ret->source_port = (uint16_t)(PORT_FIRST + permuted % PORTS);
	ret->service = weir_bench_service(tuples, number);
	ret->destination_port = WEIR_BENCH_PORT;
	weir_bench_vip(tuples->family, ret->service, ret->destination);
}
