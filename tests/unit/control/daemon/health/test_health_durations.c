// SPDX-License-Identifier: BSD-3-Clause
#include "health_durations.h"
#include "test.h"

TEST(durations_are_counted_up_to_their_bound) {
	struct weir_health_durations durations = {0};
	const struct weir_health_histogram *web;

	assert_int_equal(weir_health_durations_name(&durations, 3, "web"), 0);
	weir_health_durations_add(&durations, 3, 0);
	weir_health_durations_add(&durations, 3, 1000); // bounds are inclusive
	weir_health_durations_add(&durations, 3, 1001);
	weir_health_durations_add(&durations, 3, 5000001);
	web = weir_health_durations_of(&durations, 3);
	assert_int_equal(web->checks[0], 2);
	assert_int_equal(web->checks[1], 1);
	assert_int_equal(web->checks[WEIR_HEALTH_DURATIONS - 1], 1);
	assert_int_equal(web->sum_us, 5002002);
	weir_health_durations_fini(&durations);
}

TEST(durations_of_unnamed_services_are_not_counted) {
	struct weir_health_durations durations = {0};

	assert_int_equal(weir_health_durations_name(&durations, 3, "web"), 0);
	weir_health_durations_add(&durations, 2, 1);
	weir_health_durations_add(&durations, 4, 1);
	assert_null(weir_health_durations_of(&durations, 2));
	assert_null(weir_health_durations_of(&durations, 4));
	weir_health_durations_fini(&durations);
}

// A Prometheus counter may restart from 0, but must not start from the values of the previous
// service.
TEST(durations_begin_anew_with_another_service) {
	struct weir_health_durations durations = {0};

	assert_int_equal(weir_health_durations_name(&durations, 0, "web"), 0);
	weir_health_durations_add(&durations, 0, 7);
	assert_int_equal(weir_health_durations_name(&durations, 0, "web"), 0);
	assert_int_equal(weir_health_durations_of(&durations, 0)->sum_us, 7);
	assert_int_equal(weir_health_durations_name(&durations, 0, "dns"), 0);
	assert_int_equal(weir_health_durations_of(&durations, 0)->sum_us, 0);
	weir_health_durations_fini(&durations);
}
