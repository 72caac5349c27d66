// SPDX-License-Identifier: BSD-3-Clause
//
// random.seed(n) and random.shuffle() of CPython 3.11, for traces that were made with them. The
// generator is the Mersenne Twister MT19937 (Matsumoto, Nishimura, 1998), seeded with an array.
//
// Threads: one per generator.
#pragma once

#include <stdint.h>

#define CPYTHON_RANDOM_WORDS 624u

struct cpython_random {
	uint32_t word[CPYTHON_RANDOM_WORDS];
	uint32_t used; // number of words of the state that were already drawn
};

void cpython_random_seed(struct cpython_random *random, uint32_t seed);
void cpython_random_shuffle(struct cpython_random *random, uint32_t *items, uint32_t n);
