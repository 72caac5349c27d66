// SPDX-License-Identifier: BSD-3-Clause
//
// random.seed(n) and random.shuffle() of CPython 3.11, for traces made with them: the Mersenne
// Twister MT19937 (Matsumoto, Nishimura, 1998), seeded by array.
//
// Threads: one per generator.
#pragma once

#include <stdint.h>

#define CPYTHON_RANDOM_WORDS 624u

struct cpython_random {
	uint32_t word[CPYTHON_RANDOM_WORDS];
	uint32_t used; // number of used words of the generator's state
};

void cpython_random_seed(struct cpython_random *random, uint32_t seed);
void cpython_random_shuffle(struct cpython_random *random, uint32_t *items, uint32_t n);
