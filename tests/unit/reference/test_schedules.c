// SPDX-License-Identifier: BSD-3-Clause
//
// Reference schedules: shares over a complete period, differences between the schedules, edge
// cases.
#include <stdlib.h>

#include "schedules.h"
#include "test.h"

static void check(enum weir_schedule_kind kind, const uint32_t *weights, uint32_t n,
	const uint32_t *expected, uint32_t choices) {
	struct weir_schedule *schedule = weir_schedule_create(kind, weights, n);

	assert_non_null(schedule);
	for (uint32_t i = 0; i < choices; i++) {
		uint32_t got = weir_schedule_next(schedule);

		if (got != expected[i]) {
			fail_msg("%s, choice %u: expected %u, got %u", weir_schedule_name(kind), i,
				expected[i], got);
		}
	}
	weir_schedule_free(schedule);
}

TEST(each_orders_turns_in_a_different_way) {
	const uint32_t weights[] = {5, 1, 1};

	check(WEIR_SCHEDULE_CLASSIC, weights, 3, (const uint32_t[]){0, 0, 0, 0, 0, 1, 2, 0}, 8);
	check(WEIR_SCHEDULE_INTERLEAVED, weights, 3, (const uint32_t[]){0, 1, 2, 0, 0, 0, 0, 0}, 8);
	check(WEIR_SCHEDULE_SMOOTH, weights, 3, (const uint32_t[]){0, 0, 1, 0, 2, 0, 0, 0}, 8);
	check(WEIR_SCHEDULE_EDF, weights, 3, (const uint32_t[]){0, 0, 0, 0, 1, 2, 0, 0}, 8);
}

TEST(turns_of_a_period_follow_the_weights) {
	const uint32_t weights[] = {300, 0, 700, 100, 100};
	const uint32_t turns[] = {3, 0, 7, 1, 1};

	for (int kind = 0; kind < WEIR_SCHEDULE_COUNT; kind++) {
		struct weir_schedule *schedule = weir_schedule_create(kind, weights, 5);
		uint32_t counts[5] = {0};

		assert_non_null(schedule);
		for (uint32_t i = 0; i < 10 * 12; i++) {
			uint32_t got = weir_schedule_next(schedule);

			assert_true(got < 5);
			counts[got]++;
		}
		for (uint32_t i = 0; i < 5; i++) {
			assert_int_equal(counts[i], 10 * turns[i]);
		}
		weir_schedule_free(schedule);
	}
}

// With smooth and edf, each backend is at most one turn behind or ahead of its ideal number of
// turns.
TEST(smooth_and_edf_stay_close_to_the_ideal) {
	const uint32_t weights[] = {50, 30, 13, 7};
	const enum weir_schedule_kind kinds[] = {WEIR_SCHEDULE_SMOOTH, WEIR_SCHEDULE_EDF};

	for (unsigned int k = 0; k < 2; k++) {
		struct weir_schedule *schedule = weir_schedule_create(kinds[k], weights, 4);
		uint32_t counts[4] = {0};

		assert_non_null(schedule);
		for (uint32_t i = 1; i <= 1000; i++) {
			counts[weir_schedule_next(schedule)]++;
			for (uint32_t b = 0; b < 4; b++) {
				double ideal = i * weights[b] / 100.0;

				assert_true(counts[b] > ideal - 2 && counts[b] < ideal + 2);
			}
		}
		weir_schedule_free(schedule);
	}
}

TEST(largest_weights_do_not_overflow) {
	const uint32_t weights[] = {UINT32_MAX, UINT32_MAX - 1, 1};

	for (int kind = 0; kind < WEIR_SCHEDULE_COUNT; kind++) {
		struct weir_schedule *schedule = weir_schedule_create(kind, weights, 3);

		assert_non_null(schedule);
		for (uint32_t i = 0; i < 10000; i++) {
			assert_true(weir_schedule_next(schedule) < 3);
		}
		weir_schedule_free(schedule);
	}
}

TEST(empty_choices_are_refused) {
	const uint32_t none[] = {0, 0};
	const uint32_t one[] = {7};

	for (int kind = 0; kind < WEIR_SCHEDULE_COUNT; kind++) {
		assert_null(weir_schedule_create(kind, none, 2));
		assert_null(weir_schedule_create(kind, NULL, 0));
		check(kind, one, 1, (const uint32_t[]){0, 0, 0}, 3);
		assert_non_null(weir_schedule_name(kind));
	}
	assert_null(weir_schedule_create(WEIR_SCHEDULE_COUNT, one, 1));
	assert_null(weir_schedule_name(WEIR_SCHEDULE_COUNT));
	weir_schedule_free(NULL);
}
