// SPDX-License-Identifier: BSD-3-Clause
//
// Order: selects the flow of the next packet. Called by traffic.c. measure.c and traffic.c also use
// its random numbers.
//
// Threads: an order belongs to one thread. Equal seeds give equal sequences.
#pragma once

#include <stdint.h>

// The values of --order. X(NAME, "name")
#define WEIR_BENCH_ORDERS(X) X(UNIFORM, "uniform") X(ZIPF, "zipf") X(ONE, "one")
enum weir_bench_order_kind {
#define X(name, key) WEIR_BENCH_ORDER_##name,
	WEIR_BENCH_ORDERS(X)
#undef X
};

struct weir_bench_random {
	uint64_t state;
};

// Returns the next random number, computed by splitmix64 (Steele, Lea, Flood 2014).
static inline uint64_t weir_bench_random_next(struct weir_bench_random *random) {
	uint64_t z = (random->state += 0x9e3779b97f4a7c15ull);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	return z ^ (z >> 31);
}

static inline uint32_t weir_bench_random_below(struct weir_bench_random *random, uint32_t n) {
	return (uint32_t)(((weir_bench_random_next(random) >> 32) * n) >> 32);
}

// Returns a random number above 0 and at most 1.
static inline double weir_bench_random_unit(struct weir_bench_random *random) {
	return ((double)(weir_bench_random_next(random) >> 11) + 1) * 0x1p-53;
}

struct weir_bench_order {
	struct weir_bench_random random;
	uint32_t kind; // enum weir_bench_order_kind
	uint32_t flows;
	double exponent; // Zipf: flow number k has weight 1 / (k + 1)^exponent
	double first, last, cut; // Zipf: bounds of the integral, and limit for quick acceptance
};

// Initialize an order of this kind. flows: number of flows, at least 1. exponent: exponent of the
// Zipf distribution, above 0. seed: seed of the random numbers.
void weir_bench_order_init(struct weir_bench_order *order, enum weir_bench_order_kind kind,
	uint32_t flows, double exponent, uint64_t seed);
uint32_t weir_bench_order_zipf(struct weir_bench_order *order);

static inline uint32_t weir_bench_order_next(struct weir_bench_order *order) {
	switch ((enum weir_bench_order_kind)order->kind) {
	case WEIR_BENCH_ORDER_UNIFORM:
		return weir_bench_random_below(&order->random, order->flows);
	case WEIR_BENCH_ORDER_ZIPF:
		return weir_bench_order_zipf(order);
	case WEIR_BENCH_ORDER_ONE:
		break;
	}
	return 0;
}
