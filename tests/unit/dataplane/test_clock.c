// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define HZ 2000000000ull // frequency of the test's counter: two cycles per nanosecond

static uint64_t monotonic_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

TEST(cycles_become_nanoseconds) {
	struct weir_clock clock;
	uint64_t before = monotonic_ns();

	weir_clock_init(&clock, 5000, HZ);
	assert_in_range(weir_clock_ns(&clock, 5000), before, monotonic_ns());
	assert_int_equal(weir_clock_ns(&clock, 5000 + 2000) - weir_clock_ns(&clock, 5000), 1000);
	assert_int_equal(
		weir_clock_ns(&clock, 5000 + HZ / 1000) - weir_clock_ns(&clock, 5000), 1000000);
}

TEST(correction_is_due_once_per_period) {
	struct weir_clock clock;

	weir_clock_init(&clock, 0, HZ);
	assert_false(weir_clock_due(&clock, HZ / 1000 - 1));
	assert_true(weir_clock_due(&clock, HZ / 1000));
	weir_clock_correct(&clock, HZ / 1000);
	assert_false(weir_clock_due(&clock, HZ / 1000));
	// If the counter restarts, the clock needs a correction, but its time does not jump.
	assert_true(weir_clock_due(&clock, 0));
}

TEST(correction_follows_the_kernel_and_never_decreases) {
	struct weir_clock clock;
	uint64_t returned, before;

	// The counter is ahead of the kernel's clock: it advances by a whole period at once.
	weir_clock_init(&clock, 0, HZ);
	returned = weir_clock_ns(&clock, HZ / 1000 - 1);
	weir_clock_correct(&clock, HZ / 1000);
	assert_true(weir_clock_ns(&clock, HZ / 1000) >= returned);
	// The counter has stopped, as in a suspended machine. Then the time of the kernel is used.
	weir_clock_init(&clock, 0, HZ);
	before = monotonic_ns();
	while (monotonic_ns() < before + 3000000) {
	}
	weir_clock_correct(&clock, 10);
	assert_in_range(weir_clock_ns(&clock, 10), before + 3000000, monotonic_ns());
}
