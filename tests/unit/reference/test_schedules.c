// SPDX-License-Identifier: BSD-3-Clause
//
// Reference schedules: shares over a whole period, what tells them apart, and their edges.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "schedules.h"

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

static void each_orders_turns_in_its_own_way(void **state) {
	const uint32_t weights[] = {5, 1, 1};

	(void)state;
	check(WEIR_SCHEDULE_CLASSIC, weights, 3, (const uint32_t[]){0, 0, 0, 0, 0, 1, 2, 0}, 8);
	check(WEIR_SCHEDULE_INTERLEAVED, weights, 3, (const uint32_t[]){0, 1, 2, 0, 0, 0, 0, 0}, 8);
	check(WEIR_SCHEDULE_SMOOTH, weights, 3, (const uint32_t[]){0, 0, 1, 0, 2, 0, 0, 0}, 8);
	check(WEIR_SCHEDULE_EDF, weights, 3, (const uint32_t[]){0, 0, 0, 0, 1, 2, 0, 0}, 8);
}

static void turns_of_a_period_follow_the_weights(void **state) {
	const uint32_t weights[] = {300, 0, 700, 100, 100};
	const uint32_t turns[] = {3, 0, 7, 1, 1};

	(void)state;
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

// Nobody is ever more than one turn behind or ahead: what smooth and edf are for.
static void smooth_and_edf_stay_close_to_the_ideal(void **state) {
	const uint32_t weights[] = {50, 30, 13, 7};
	const enum weir_schedule_kind kinds[] = {WEIR_SCHEDULE_SMOOTH, WEIR_SCHEDULE_EDF};

	(void)state;
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

static void largest_weights_do_not_overflow(void **state) {
	const uint32_t weights[] = {UINT32_MAX, UINT32_MAX - 1, 1};

	(void)state;
	for (int kind = 0; kind < WEIR_SCHEDULE_COUNT; kind++) {
		struct weir_schedule *schedule = weir_schedule_create(kind, weights, 3);

		assert_non_null(schedule);
		for (uint32_t i = 0; i < 10000; i++) {
			assert_true(weir_schedule_next(schedule) < 3);
		}
		weir_schedule_free(schedule);
	}
}

static void nothing_to_choose_from_is_refused(void **state) {
	const uint32_t none[] = {0, 0};
	const uint32_t one[] = {7};

	(void)state;
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

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_orders_turns_in_its_own_way),
		cmocka_unit_test(turns_of_a_period_follow_the_weights),
		cmocka_unit_test(smooth_and_edf_stay_close_to_the_ideal),
		cmocka_unit_test(largest_weights_do_not_overflow),
		cmocka_unit_test(nothing_to_choose_from_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
