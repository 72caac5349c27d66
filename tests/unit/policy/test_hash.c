// SPDX-License-Identifier: BSD-3-Clause
//
// Hashes: fixed values (instances on other machines must agree), distribution, and collisions.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "hash.h"
#include "test.h"

#define FLOWS 65536u
#define BINS 1024u

static uint64_t hash4(uint32_t n, uint64_t seed) {
	return weir_hash_ipv4(0x0a000000u + n / 64, 0xc6336464u, (uint16_t)(1024 + n % 64),
		(uint16_t)80, 6, seed);
}

static uint64_t hash6(uint32_t n, uint64_t seed) {
	uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8};
	uint8_t destination[16] = {0x20, 0x01, 0x0d, 0xb8, 1};

	source[14] = (uint8_t)(n >> 14);
	source[15] = (uint8_t)(n >> 6);
	return weir_hash_ipv6(source, destination, (uint16_t)(1024 + n % 64), 80, 6, seed);
}

// Flows between two hosts: only their ports differ.
static uint64_t hash4_ports(uint32_t n, uint64_t seed) {
	return weir_hash_ipv4(
		0x0100000a, 0x0200000a, (uint16_t)(n & 0xff), (uint16_t)(n >> 8), 6, seed);
}

static uint64_t hash6_ports(uint32_t n, uint64_t seed) {
	const uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8}, destination[16] = {0x20, 0x02};

	return weir_hash_ipv6(
		source, destination, (uint16_t)(n & 0xff), (uint16_t)(n >> 8), 6, seed);
}

// Flows from one host in each of many networks, to one service address or to many.
static uint64_t hash6_networks(uint32_t n, uint64_t seed) {
	uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8}, destination[16] = {0x20, 0x02};

	source[6] = (uint8_t)(n >> 8);
	source[7] = (uint8_t)n;
	source[15] = 1;
	return weir_hash_ipv6(source, destination, 1024, 80, 6, seed);
}

static uint64_t hash6_both(uint32_t n, uint64_t seed) {
	uint8_t source[16] = {0x20, 0x01, 0x0d, 0xb8}, destination[16] = {0x20, 0x02};

	source[15] = (uint8_t)n;
	destination[15] = (uint8_t)(n >> 8);
	return weir_hash_ipv6(source, destination, 1024, 80, 6, seed);
}

static uint64_t hash_name(uint32_t n, uint64_t seed) {
	char name[32];
	int bytes = snprintf(name, sizeof(name), "web-%u", n);

	return weir_hash_bytes(name, (size_t)bytes, seed);
}

// Chi square over 1,024 bins with 64 expected values each: mean 1023, standard deviation 45. The
// bounds are six deviations on both sides.
static void check_even(uint64_t (*hash)(uint32_t, uint64_t), unsigned int shift) {
	static uint32_t bins[BINS];
	double chi = 0;

	memset(bins, 0, sizeof(bins));
	for (uint32_t n = 0; n < FLOWS; n++) {
		bins[hash(n, 42) >> shift & (BINS - 1)]++;
	}
	for (uint32_t i = 0; i < BINS; i++) {
		double d = (double)bins[i] - FLOWS / BINS;

		chi += d * d / (FLOWS / BINS);
	}
	assert_true(chi > 1023 - 6 * 45 && chi < 1023 + 6 * 45);
}

TEST(hashes_spread_evenly_over_high_and_low_bits) {
	for (unsigned int shift = 0; shift <= 54; shift += 9) {
		check_even(hash4, shift);
		check_even(hash4_ports, shift);
		check_even(hash6, shift);
		check_even(hash6_ports, shift);
		check_even(hash6_networks, shift);
		check_even(hash6_both, shift);
		check_even(hash_name, shift);
	}
}

TEST(hash_values_are_fixed) {
	uint8_t source[16], destination[16];

	for (uint8_t i = 0; i < 16; i++) {
		source[i] = i;
		destination[i] = (uint8_t)(0xf0 + i);
	}
	assert_true(weir_hash_ipv4(1, 2, 3, 4, 6, 7) == 0x117e75d3deb69022ull);
	assert_true(weir_hash_ipv6(source, destination, 3, 4, 6, 7) == 0x75f00fcd555134a0ull);
	assert_true(weir_hash_bytes("web/web-1", 9, 0) == 0x4460cbef1eebef6aull);
	assert_true(weir_hash_bytes("", 0, 0) == 0x4c4898c976ae7d60ull);
}

TEST(flow_hash_depends_on_every_input) {
	uint64_t base4 = weir_hash_ipv4(1, 2, 3, 4, 6, 7);
	uint8_t a[16] = {1}, b[16] = {2};
	uint64_t base6 = weir_hash_ipv6(a, b, 3, 4, 6, 7);

	assert_true(base4 != weir_hash_ipv4(5, 2, 3, 4, 6, 7));
	assert_true(base4 != weir_hash_ipv4(1, 5, 3, 4, 6, 7));
	assert_true(base4 != weir_hash_ipv4(1, 2, 5, 4, 6, 7));
	assert_true(base4 != weir_hash_ipv4(1, 2, 3, 5, 6, 7));
	assert_true(base4 != weir_hash_ipv4(1, 2, 3, 4, 17, 7));
	assert_true(base4 != weir_hash_ipv4(1, 2, 3, 4, 6, 8));
	assert_true(base4 != weir_hash_ipv4(2, 1, 4, 3, 6, 7));
	assert_true(base6 != weir_hash_ipv6(b, a, 3, 4, 6, 7));
	assert_true(base6 != weir_hash_ipv6(a, b, 4, 3, 6, 7));
	assert_true(base6 != weir_hash_ipv6(a, b, 3, 4, 17, 7));
	assert_true(base6 != weir_hash_ipv6(a, b, 3, 4, 6, 8));
	for (unsigned int i = 0; i < 16; i++) {
		a[i] ^= 0x10;
		assert_true(base6 != weir_hash_ipv6(a, b, 3, 4, 6, 7));
		a[i] ^= 0x10;
		b[i] ^= 0x10;
		assert_true(base6 != weir_hash_ipv6(a, b, 3, 4, 6, 7));
		b[i] ^= 0x10;
	}
}

// A factor of 0 would cancel the other half of the address. An attacker who does not have the seed
// cannot choose an address that results in a factor of 0.
TEST(ipv6_hash_has_no_address_that_cancels_the_rest) {
	const uint64_t rest = 3 | 4u << 16 | 6ull << 32; // used in the destination's factor
	const uint64_t low[] = {0xd1342543de82ef95ull, 0x589965cc75374cc3ull ^ rest};

	for (unsigned int i = 0; i < 2; i++) {
		uint8_t a[16] = {1}, b[16] = {2}, c[16] = {3};

		memcpy(a + 8, &low[i], 8);
		memcpy(c + 8, &low[i], 8);
		assert_true(weir_hash_ipv6(a, b, 3, 4, 6, 7) != weir_hash_ipv6(c, b, 3, 4, 6, 7));
		assert_true(weir_hash_ipv6(b, a, 3, 4, 6, 7) != weir_hash_ipv6(b, c, 3, 4, 6, 7));
	}
}

// The source port is combined with byte 8 of the destination: equal bits in both must not give
// equal hashes.
TEST(ipv6_hash_distinguishes_ports_from_addresses) {
	const uint8_t source[16] = {1};
	uint8_t destination[16] = {2};
	uint64_t base = weir_hash_ipv6(source, destination, 3, 4, 6, 7);

	for (uint16_t port = 0; port < 256; port++) {
		destination[8] = (uint8_t)(3 ^ port);
		assert_true(
			port == 3 || base != weir_hash_ipv6(source, destination, port, 4, 6, 7));
	}
}

static int compare(const void *a, const void *b) {
	uint64_t x, y;

	memcpy(&x, a, sizeof(x));
	memcpy(&y, b, sizeof(y));
	return (x > y) - (x < y);
}

// With 64 bits no collision is expected among 2^16 similar names (probability 1e-10).
TEST(names_do_not_collide) {
	static uint64_t hashes[FLOWS];

	for (uint32_t n = 0; n < FLOWS; n++) {
		hashes[n] = hash_name(n, 1);
	}
	qsort(hashes, FLOWS, sizeof(hashes[0]), compare);
	for (uint32_t n = 1; n < FLOWS; n++) {
		assert_true(hashes[n - 1] != hashes[n]);
	}
}

// Names that differ only in trailing NULs or in length must have different hashes. The alignment of
// the buffer must not change the hash.
TEST(bytes_hash_depends_on_length_and_not_on_alignment) {
	uint8_t buffer[64 + 8] = {0};

	for (size_t bytes = 0; bytes < 40; bytes++) {
		uint64_t hash = weir_hash_bytes(buffer, bytes, 5);

		assert_true(hash != weir_hash_bytes(buffer, bytes + 1, 5));
		for (size_t shift = 1; shift < 8; shift++) {
			assert_true(hash == weir_hash_bytes(buffer + shift, bytes, 5));
		}
	}
}
