// SPDX-License-Identifier: BSD-3-Clause
//
// Tuples: the addresses and ports of flow number n. They are computed and not stored, because
// reading them from memory would evict the measured data from the caches. Called by balancer.c and
// measure.c.
//
// The source address and port are a keyed permutation of n. Therefore they look random, and no two
// flows have the same source address and port. Clients have unicast addresses and ports from 1024.
// A hash of n selects the service of the flow.
//
// Threads: any; no shared state.
#pragma once

#include <stdint.h>

#define WEIR_BENCH_PORT 80 // port of every service
#define WEIR_BENCH_NUMBERS (1ull << 47) // only smaller numbers have a tuple

struct weir_bench_tuple {
	uint8_t source[16]; // IPv4: in the first 4 bytes; the other bytes are 0
	uint8_t destination[16];
	uint16_t source_port; // host order
	uint16_t destination_port;
	uint16_t service;
	uint8_t family; // 4 or 6
};

struct weir_bench_tuples {
	uint64_t seed;
	uint32_t services;
	uint8_t family;
};

void weir_bench_tuple(
	const struct weir_bench_tuples *tuples, uint64_t number, struct weir_bench_tuple *ret);

// Returns the service of flow `number`.
uint16_t weir_bench_service(const struct weir_bench_tuples *tuples, uint64_t number);

// Gets the VIP of a service.
void weir_bench_vip(uint8_t family, uint16_t service, uint8_t ret[16]);

// Computes a pseudo-random permutation of the numbers 0 .. 2^48 - 1. seed: selects the permutation.
uint64_t weir_bench_permute(uint64_t seed, uint64_t number);
