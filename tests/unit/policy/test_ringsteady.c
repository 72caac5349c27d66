// SPDX-License-Identifier: BSD-3-Clause
//
// Ringsteady: positions, the order around the circle (compared with a sort), and added items.
#include <stdlib.h>
#include <string.h>

#include "ringsteady.h"
#include "test.h"

#define ITEMS_MAX 300u

TEST(ringsteady_positions_are_reversed_bits) {
	assert_int_equal(weir_ringsteady_position(0), 0);
	assert_int_equal(weir_ringsteady_position(1), 1u << 31);
	assert_int_equal(weir_ringsteady_position(2), 1u << 30);
	assert_int_equal(weir_ringsteady_position(3), 3u << 30);
	assert_int_equal(weir_ringsteady_position(4), 1u << 29);
	assert_int_equal(weir_ringsteady_position(0x80000001u), 0x80000001u);
	assert_int_equal(weir_ringsteady_position(0x12345678u), 0x1e6a2c48u);
}

TEST(ringsteady_order_of_six) {
	static const uint32_t from_0[] = {0, 4, 2, 1, 5, 3};
	static const uint32_t from_1[] = {1, 5, 3, 0, 4, 2};
	uint32_t order[6];

	weir_ringsteady_order(0, 6, order);
	assert_memory_equal(order, from_0, sizeof(order));
	weir_ringsteady_order(1, 6, order);
	assert_memory_equal(order, from_1, sizeof(order));
}

// Computes the order with a slow, simple method: repeatedly finds the item with the next larger
// distance from the start.
static void plain_order(uint32_t start, uint32_t count, uint32_t *order) {
	uint8_t used[ITEMS_MAX] = {0};

	for (uint32_t place = 0; place < count; place++) {
		uint32_t best = UINT32_MAX;

		for (uint32_t i = 0; i < count; i++) {
			uint32_t here =
				weir_ringsteady_position(i) - weir_ringsteady_position(start);

			if (!used[i] && (best == UINT32_MAX ||
						here < weir_ringsteady_position(best) -
								weir_ringsteady_position(start))) {
				best = i;
			}
		}
		used[best] = 1;
		order[place] = best;
	}
}

TEST(ringsteady_order_is_that_of_a_sort) {
	static const uint32_t starts[] = {0, 1, 5, 7, 8, 100, 255, 256, 299, 5000, 0xffffffffu};
	uint32_t expected[ITEMS_MAX];

	for (uint32_t count = 0; count <= ITEMS_MAX; count += count < 40 ? 1 : 65) {
		for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
			uint32_t *order = calloc(count + (count == 0), sizeof(*order));

			assert_non_null(order);
			weir_ringsteady_order(starts[i], count, order);
			plain_order(starts[i], count, expected);
			assert_memory_equal(order, expected, count * sizeof(*order));
			free(order);
		}
	}
}

// Returns the distance from order[i] to the next item, in an order that starts at item 0.
static uint64_t gap_after(const uint32_t *order, uint32_t count, uint32_t i) {
	uint64_t here = weir_ringsteady_position(order[i]);
	uint64_t next = i + 1 < count ? weir_ringsteady_position(order[i + 1]) : 1ull << 32;

	return next - here;
}

TEST(ringsteady_additional_item_splits_a_largest_gap) {
	uint32_t order[ITEMS_MAX];

	for (uint32_t count = 1; count < ITEMS_MAX; count++) {
		uint64_t position = weir_ringsteady_position(count);
		uint64_t largest = 0;
		uint64_t split = 0;

		weir_ringsteady_order(0, count, order);
		for (uint32_t i = 0; i < count; i++) {
			uint64_t gap = gap_after(order, count, i);
			uint64_t here = weir_ringsteady_position(order[i]);

			largest = gap > largest ? gap : largest;
			if (position > here && position < here + gap) {
				split = gap;
			}
		}
		assert_true(split > 0 && split == largest);
	}
}
