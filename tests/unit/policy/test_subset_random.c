// SPDX-License-Identifier: BSD-3-Clause
//
// Random subsetting: numbers from the literature, and the distribution over 100 salts.
#include "subset_lab.h"

#define FLEET 300u // number of clients, and of backends
#define SALTS 100u

static struct spread spread_with(uint32_t size, uint32_t salt) {
	struct weir_subset_params params = {
		.algorithm = WEIR_SUBSET_RANDOM, .size = size, .salt = salt};

	return count_spread(&params, FLEET, FLEET);
}

TEST(random_list_is_the_documented_shuffle) {
	static const uint32_t expected[] = {5, 2, 7, 1, 3, 8, 0, 6, 4, 9};
	struct weir_subset_params params = {
		.algorithm = WEIR_SUBSET_RANDOM, .size = 9, .client = 3, .salt = 7};
	uint32_t subset[10];

	assert_int_equal(choose(&params, 0, NULL, 10, subset), 9);
	assert_memory_equal(subset, expected, 9 * sizeof(*subset));
}

// SRE book, figures 20-3 and 20-4.
TEST(random_300_by_300_is_57_to_109_and_15_to_45) {
	struct spread of_90 = spread_with(90, 8985);
	struct spread of_30 = spread_with(30, 58);

	assert_int_equal(of_90.min, 57);
	assert_int_equal(of_90.max, 109);
	assert_int_equal(of_90.total, FLEET * 90);
	assert_int_equal(of_30.min, 15);
	assert_int_equal(of_30.max, 45);
	assert_int_equal(of_30.total, FLEET * 30);
}

// 99 % of salts are inside each band; more than 5 of 100 salts are outside with a probability of
// 1:2000.
TEST(random_stays_inside_the_bands) {
	static const struct {
		uint32_t size, min_from, min_to, max_from, max_to;
	} bands[] = {
		{90, 59, 73, 107, 124},
		{30, 11, 19, 42, 54},
		{225, 193, 208, 241, 256},
	};

	for (size_t i = 0; i < sizeof(bands) / sizeof(bands[0]); i++) {
		uint32_t outside_min = 0;
		uint32_t outside_max = 0;

		for (uint32_t salt = 0; salt < SALTS; salt++) {
			struct spread spread = spread_with(bands[i].size, salt);

			outside_min +=
				spread.min < bands[i].min_from || spread.min > bands[i].min_to;
			outside_max +=
				spread.max < bands[i].max_from || spread.max > bands[i].max_to;
		}
		assert_in_range(outside_min, 0, 5);
		assert_in_range(outside_max, 0, 5);
	}
}

TEST(random_failure_is_filled_by_the_next_of_the_list) {
	static const uint32_t expected[] = {5, 7, 1, 3, 0};
	struct weir_subset_params params = {
		.algorithm = WEIR_SUBSET_RANDOM, .size = 5, .client = 3, .salt = 7};
	uint8_t usable[10] = {1, 1, 0, 1, 1, 1, 1, 1, 0, 1};
	uint32_t subset[10];

	assert_int_equal(choose(&params, 0, usable, 10, subset), 5);
	assert_memory_equal(subset, expected, sizeof(expected));
}
