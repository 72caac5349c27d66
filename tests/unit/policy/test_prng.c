// SPDX-License-Identifier: BSD-3-Clause
//
// Portable random numbers: the published first numbers of SplitMix64, ranges, shuffles.
#include "prng.h"
#include "test.h"

TEST(prng_next_is_splitmix64) {
	struct weir_prng zero = {0};
	struct weir_prng other = {1234567};

	assert_true(weir_prng_next(&zero) == 0xe220a8397b1dcdafull);
	assert_true(weir_prng_next(&zero) == 0x6e789e6aa1b965f4ull);
	assert_true(weir_prng_next(&zero) == 0x06c45d188009454full);
	assert_true(weir_prng_next(&other) == 6457827717110365317ull);
	assert_true(weir_prng_next(&other) == 3203168211198807973ull);
}

TEST(prng_below_reaches_every_number_evenly) {
	struct weir_prng prng = {7};
	uint32_t counts[10] = {0};

	for (int i = 0; i < 100000; i++) {
		uint32_t number = weir_prng_below(&prng, 10);

		assert_true(number < 10);
		counts[number]++;
	}
	for (int i = 0; i < 10; i++) { // within 6 standard deviations
		assert_in_range(counts[i], 10000 - 570, 10000 + 570);
	}
	assert_int_equal(weir_prng_below(&prng, 1), 0);
}

TEST(prng_shuffle_is_the_documented_one) {
	static const uint32_t expected[] = {5, 11, 6, 7, 3, 1, 2, 9, 8, 0, 4, 10};
	struct weir_prng prng = {0};
	uint32_t items[12];

	for (uint32_t i = 0; i < 12; i++) {
		items[i] = i;
	}
	weir_prng_shuffle(&prng, items, 12);
	assert_memory_equal(items, expected, sizeof(items));
}

TEST(prng_shuffle_of_one_or_none_draws_nothing) {
	struct weir_prng prng = {42};
	uint32_t item = 9;

	weir_prng_shuffle(&prng, &item, 0);
	weir_prng_shuffle(&prng, &item, 1);
	assert_int_equal(item, 9);
	assert_true(prng.state == 42);
}

// Each of the 24 permutations of four items occurs about equally often.
TEST(prng_shuffle_is_fair) {
	uint32_t counts[256] = {0};
	int orders = 0;

	for (uint64_t seed = 0; seed < 24000; seed++) {
		struct weir_prng prng = {seed};
		uint32_t items[4] = {0, 1, 2, 3};

		weir_prng_shuffle(&prng, items, 4);
		counts[items[0] << 6 | items[1] << 4 | items[2] << 2 | items[3]]++;
	}
	for (int i = 0; i < 256; i++) {
		if (counts[i] > 0) {
			assert_in_range(counts[i], 800, 1200);
			orders++;
		}
	}
	assert_int_equal(orders, 24);
}
