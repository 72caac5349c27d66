// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the rate of the additional checks of new backends, which cover all VIPs of the service.
#include "health_cover.h"
#include "test.h"

TEST(few_backends_cover_their_vips_quickly) {
	(void)state;
	assert_int_equal(weir_health_cover_ms(1, 100, 1000), 100);
	assert_int_equal(weir_health_cover_ms(200, 100, 1000), 100);
	assert_int_equal(weir_health_cover_ms(1, 1000, 1000), 1000); // retry_interval_ms
}

TEST(many_backends_cover_their_vips_at_a_bounded_rate) {
	(void)state;
	for (uint32_t open = 201; open < 2000; open += 7) {
		uint32_t ms = weir_health_cover_ms(open, 100, 1000);

		assert_true(open * 1000u / ms <= WEIR_HEALTH_COVER_PER_S + 10);
	}
	assert_int_equal(weir_health_cover_ms(60000, 100, 1000), 1000); // the usual interval
	assert_int_equal(weir_health_cover_ms(60000, 100, 10), 10);
}

TEST(open_covers_are_counted_once) {
	struct weir_health_cover one = {0}, other = {0};
	uint32_t open = 0;

	(void)state;
	weir_health_cover_open(&one, true, &open);
	weir_health_cover_open(&one, true, &open);
	weir_health_cover_open(&other, false, &open);
	assert_int_equal(open, 1);
	weir_health_cover_open(&other, true, &open);
	weir_health_cover_open(&one, false, &open);
	weir_health_cover_open(&one, false, &open);
	assert_int_equal(open, 1);
}
