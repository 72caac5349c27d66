// SPDX-License-Identifier: BSD-3-Clause
#include <stdlib.h>

#include "test.h"
#include "wheel.h"

#define ENTRIES 2000u

struct timed {
	struct weir_wheel_entry entry;
	uint64_t due_ms;
	unsigned int taken;
};

static struct weir_wheel *make(uint64_t now_ms) {
	struct weir_wheel *wheel = malloc(sizeof(*wheel));

	assert_non_null(wheel);
	weir_wheel_init(wheel, now_ms);
	return wheel;
}

// The test advances the clock by each timeout that the wheel returns, over several revolutions.
// Each entry must become due once, never early, and at most one tick late.
TEST(every_entry_is_due_in_time) {
	struct timed *timed = calloc(ENTRIES, sizeof(*timed));
	struct weir_wheel *wheel = make(1000);
	uint64_t now_ms = 1000, wait_ms;
	uint32_t taken = 0;

	assert_non_null(timed);
	srandom(7);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		timed[i].due_ms = 1000 + (uint64_t)random() % 60000;
		weir_wheel_set(wheel, &timed[i].entry, timed[i].due_ms);
	}
	while ((wait_ms = weir_wheel_wait(wheel, now_ms)) != 0) {
		struct timed *one;

		now_ms += wait_ms;
		while ((one = (struct timed *)(void *)weir_wheel_take(wheel, now_ms)) != NULL) {
			one->taken++;
			taken++;
			assert_in_range(now_ms, one->due_ms, one->due_ms + 2 * WEIR_WHEEL_TICK_MS);
		}
	}
	assert_int_equal(taken, ENTRIES);
	for (uint32_t i = 0; i < ENTRIES; i++) {
		assert_int_equal(timed[i].taken, 1);
	}
	free(wheel);
	free(timed);
}

TEST(entry_is_moved_and_removed) {
	struct weir_wheel *wheel = make(0);
	struct timed a = {0}, b = {0};

	weir_wheel_clear(wheel, &a.entry);
	assert_int_equal(weir_wheel_wait(wheel, 0), 0);
	weir_wheel_set(wheel, &a.entry, 100);
	weir_wheel_set(wheel, &b.entry, 100);
	weir_wheel_set(wheel, &a.entry, 300);
	weir_wheel_clear(wheel, &b.entry);
	assert_null(weir_wheel_take(wheel, 299));
	assert_ptr_equal(weir_wheel_take(wheel, 300), &a.entry);
	assert_null(weir_wheel_take(wheel, 100000));
	assert_int_equal(weir_wheel_wait(wheel, 100000), 0);
	free(wheel);
}

// After a pause of minutes, the wheel returns all entries that became due in that time. An entry
// that is added with a time in the past becomes due only at the next tick; otherwise a loop could
// handle this entry forever.
TEST(nothing_is_lost_after_a_pause) {
	struct weir_wheel *wheel = make(0);
	struct timed timed[3] = {0};

	weir_wheel_set(wheel, &timed[0].entry, 50);
	weir_wheel_set(wheel, &timed[1].entry, 20000);
	weir_wheel_set(wheel, &timed[2].entry, 400000);
	assert_non_null(weir_wheel_take(wheel, 300000));
	assert_non_null(weir_wheel_take(wheel, 300000));
	assert_null(weir_wheel_take(wheel, 300000));
	weir_wheel_set(wheel, &timed[0].entry, 7);
	assert_null(weir_wheel_take(wheel, 300000));
	assert_ptr_equal(weir_wheel_take(wheel, 300000 + WEIR_WHEEL_TICK_MS), &timed[0].entry);
	assert_ptr_equal(weir_wheel_take(wheel, 400000), &timed[2].entry);
	free(wheel);
}
