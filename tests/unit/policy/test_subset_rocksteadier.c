// SPDX-License-Identifier: BSD-3-Clause
//
// Rocksteadier subsetting: the order of backends for a known example, even distribution, and
// minimal changes when backends are added.
#include "subset_lab.h"

static struct weir_subset_params rocksteadier(uint32_t size, uint32_t client) {
	return (struct weir_subset_params){
		.algorithm = WEIR_SUBSET_ROCKSTEADIER, .size = size, .client = client};
}

static struct spread spread_with(uint32_t clients, uint32_t backends, uint32_t size) {
	struct weir_subset_params params = rocksteadier(size, 0);

	return count_spread(&params, clients, backends);
}

// The list of the next client of a lot begins like the list of the previous client without its
// first lap (one backend of each backend lot).
TEST(rocksteadier_clients_of_a_lot_continue_each_other) {
	static const uint32_t first[] = {4, 46, 29, 10, 51, 38, 3, 49, 27, 13};
	static const uint32_t second[] = {3, 49, 27, 13, 52, 35, 1, 40, 21, 15};
	struct weir_subset_params params = rocksteadier(10, 0);
	uint32_t subset[56];

	assert_int_equal(choose(&params, 0, NULL, 56, subset), 10);
	assert_memory_equal(subset, first, sizeof(first));
	params.client = 1;
	assert_int_equal(choose(&params, 0, NULL, 56, subset), 10);
	assert_memory_equal(subset, second, sizeof(second));
}

TEST(rocksteadier_is_exact_if_lots_divide) {
	struct spread spread = spread_with(300, 300, 10);

	assert_int_equal(spread.min, 10);
	assert_int_equal(spread.max, 10);
	spread = spread_with(50, 100, 20);
	assert_int_equal(spread.min, 10);
	assert_int_equal(spread.max, 10);
}

// According to the literature, the difference from the mean is at most 2.
TEST(rocksteadier_is_almost_even_otherwise) {
	struct spread spread = spread_with(203, 305, 20); // 13.3 on average

	assert_int_equal(spread.min, 12);
	assert_int_equal(spread.max, 15);
	spread = spread_with(40, 56, 10); // 7.1 on average
	assert_int_equal(spread.min, 6);
	assert_int_equal(spread.max, 8);
}

// Backends are added one by one, from 90 to 131, so that lots become full and new lots begin.
TEST(rocksteadier_growth_moves_only_members_of_the_new_one) {
	static struct fleet before;
	static struct fleet after;
	struct weir_subset_params params = rocksteadier(20, 0);

	fleet_choose(&before, choose, &params, 50, NULL, 90);
	for (uint32_t n = 91; n <= 131; n++) {
		uint64_t gained = 0;

		fleet_choose(&after, choose, &params, 50, NULL, n);
		for (uint32_t c = 0; c < 50; c++) {
			gained += (uint64_t)fleet_holds(&after, c, n - 1);
		}
		assert_in_range(gained, 1, 50 * 20 / n + 3);
		assert_int_equal(fleet_left(&before, &after), gained);
		before = after;
	}
}

// An unusable last backend gives the same subsets as a list without this backend.
TEST(rocksteadier_unusable_equals_absent) {
	uint8_t usable[57];
	uint32_t without[57];
	uint32_t with[57];

	memset(usable, 1, sizeof(usable));
	usable[56] = 0;
	for (uint32_t client = 0; client < 45; client++) {
		struct weir_subset_params params = rocksteadier(17, client);

		assert_int_equal(choose(&params, 0, NULL, 56, without), 17);
		assert_int_equal(choose(&params, 0, usable, 57, with), 17);
		assert_memory_equal(without, with, 17 * sizeof(*with));
	}
}
