// SPDX-License-Identifier: BSD-3-Clause
#include "latency.h"
#include "test.h"

#include <stdlib.h>

TEST(quantiles_of_nothing_are_zero) {
	static struct rig_latency latency;

	rig_latency_clear(&latency);
	assert_int_equal(rig_latency_quantile(&latency, 0.5), 0);
	assert_int_equal(rig_latency_quantile(&latency, 1), 0);
}

TEST(small_values_are_exact) {
	static struct rig_latency latency;

	rig_latency_clear(&latency);
	for (uint64_t value = 1; value <= 100; value++) {
		rig_latency_add(&latency, value);
	}
	assert_int_equal(rig_latency_quantile(&latency, 0.5), 50);
	assert_int_equal(rig_latency_quantile(&latency, 0.9), 90);
	assert_int_equal(rig_latency_quantile(&latency, 0.99), 99);
	assert_int_equal(rig_latency_quantile(&latency, 1), 100);
	assert_int_equal(latency.count, 100);
	assert_int_equal(latency.sum, 5050);
}

TEST(one_slow_packet_in_a_thousand_is_the_last_quantile) {
	static struct rig_latency latency;

	rig_latency_clear(&latency);
	for (unsigned int i = 0; i < 999; i++) {
		rig_latency_add(&latency, 10);
	}
	rig_latency_add(&latency, 1000000);
	assert_int_equal(rig_latency_quantile(&latency, 0.999), 10);
	assert_int_equal(rig_latency_quantile(&latency, 0.9995), 1000000);
	assert_int_equal(latency.max, 1000000);
}

// If the histogram has only one value, the quantile is exact. If it also has a larger value, the
// quantile is the end of the slot.
TEST(error_is_below_two_percent) {
	static struct rig_latency latency;

	for (unsigned int bit = 0; bit < 48; bit++) {
		for (uint64_t add = 0; add < 3; add++) {
			uint64_t value = (1ull << bit) + add * (1ull << bit) / 3;
			uint64_t found;

			rig_latency_clear(&latency);
			rig_latency_add(&latency, value);
			assert_int_equal(rig_latency_quantile(&latency, 0.5), value);
			rig_latency_add(&latency, UINT64_MAX);
			found = rig_latency_quantile(&latency, 0.5);
			assert_in_range(found, value, value + value / 50);
		}
	}
}

TEST(slots_are_ascending) {
	uint32_t before = 0;

	for (uint64_t value = 0; value < 100000; value++) {
		uint32_t slot = rig_latency_slot(value);

		assert_true(slot == before || slot == before + 1);
		before = slot;
	}
	assert_true(rig_latency_slot(UINT64_MAX) == RIG_LATENCY_SLOTS - 1);
}
