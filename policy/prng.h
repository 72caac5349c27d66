// SPDX-License-Identifier: BSD-3-Clause
//
// Portable random numbers: identical on every machine and in every language, so that all clients
// compute the same shuffle without communication. Used by subsetting and by the simulator; never on
// the packet path.
//
// Source: SplitMix64 (Steele, Lea, Flood, OOPSLA 2014); a number below n is computed by
// multiply-high, without rejection, so that its bias is less than n / 2^64.
//
// Threads: any; the caller owns the state.
#pragma once

#include <stdint.h>

struct weir_prng {
	uint64_t state; // initially the seed
};

static inline uint64_t weir_prng_next(struct weir_prng *prng) {
	uint64_t x = prng->state += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// Returns a number from 0 to n - 1. n > 0.
static inline uint32_t weir_prng_below(struct weir_prng *prng, uint32_t n) {
	return (uint32_t)((unsigned __int128)weir_prng_next(prng) * n >> 64);
}

// Fisher-Yates shuffle from the last item down: draws n - 1 numbers.
static inline void weir_prng_shuffle(struct weir_prng *prng, uint32_t *items, uint32_t n) {
	for (uint32_t last = n; last-- > 1;) {
		uint32_t other = weir_prng_below(prng, last + 1);
		uint32_t item = items[last];

		items[last] = items[other];
		items[other] = item;
	}
}
