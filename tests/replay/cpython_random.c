// SPDX-License-Identifier: BSD-3-Clause
#include "cpython_random.h"

enum { WORDS = CPYTHON_RANDOM_WORDS, MIDDLE = 397 };

static uint32_t blend(uint32_t word) {
	return word ^ word >> 30;
}

void cpython_random_seed(struct cpython_random *random, uint32_t seed) {
	uint32_t *word = random->word;
	uint32_t at = 1;

	word[0] = 19650218u;
	for (uint32_t i = 1; i < WORDS; i++) {
		word[i] = 1812433253u * blend(word[i - 1]) + i;
	}
	// Seed with an array of one number: process each word once with the seed, and once with the
	// word's index.
	for (int i = 0; i < WORDS; i++) {
		word[at] = (word[at] ^ blend(word[at - 1]) * 1664525u) + seed;
		if (++at == WORDS) {
			word[0] = word[WORDS - 1];
			at = 1;
		}
	}
	for (int i = 0; i < WORDS - 1; i++) {
		word[at] = (word[at] ^ blend(word[at - 1]) * 1566083941u) - at;
		if (++at == WORDS) {
			word[0] = word[WORDS - 1];
			at = 1;
		}
	}
	word[0] = 0x80000000u;
	random->used = WORDS;
}

static void advance(uint32_t *word) {
	for (uint32_t i = 0; i < WORDS; i++) {
		uint32_t joined = (word[i] & 0x80000000u) | (word[(i + 1) % WORDS] & 0x7fffffffu);

		word[i] = word[(i + MIDDLE) % WORDS] ^ joined >> 1 ^ (joined & 1 ? 0x9908b0dfu : 0);
	}
}

static uint32_t next(struct cpython_random *random) {
	uint32_t y;

	if (random->used == WORDS) {
		advance(random->word);
		random->used = 0;
	}
	y = random->word[random->used++];
	y ^= y >> 11;
	y ^= y << 7 & 0x9d2c5680u;
	y ^= y << 15 & 0xefc60000u;
	return y ^ y >> 18;
}

// Returns a random number in 0 .. n - 1; n > 0. Draws numbers with as many bits as n, until a
// number is below n.
static uint32_t below(struct cpython_random *random, uint32_t n) {
	int unused = __builtin_clz(n);
	uint32_t number = next(random) >> unused;

	while (number >= n) {
		number = next(random) >> unused;
	}
	return number;
}

void cpython_random_shuffle(struct cpython_random *random, uint32_t *items, uint32_t n) {
	for (uint32_t last = n; last-- > 1;) {
		uint32_t other = below(random, last + 1);
		uint32_t item = items[last];

		items[last] = items[other];
		items[other] = item;
	}
}
