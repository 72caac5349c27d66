// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "canary_plan.h"

TEST(default_plan_is_valid) {
	struct weir_canary_plan plan = weir_canary_plan_default();
	char why[256];

	assert_int_equal(weir_canary_plan_check(&plan, why, sizeof(why)), 0);
	assert_int_equal(plan.steps, 4);
}

// Check that the plan is refused, and that the reason contains the name of the argument.
static void refuse(struct weir_canary_plan plan, const char *name) {
	char why[256] = "";

	assert_int_equal(weir_canary_plan_check(&plan, why, sizeof(why)), -EINVAL);
	assert_non_null(strstr(why, name));
}

TEST(plan_check_names_the_invalid_argument) {
	const struct weir_canary_plan plan = weir_canary_plan_default();
	struct weir_canary_plan bad;
	const double percents[] = {0, -1, 0.001, 99.5, 100, 1e300, (double)NAN, (double)INFINITY};
	const double ratios[] = {0, 0.99, -1, 1000.1, (double)NAN, (double)INFINITY};

	for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
		bad = plan;
		bad.percent[3] = percents[i];
		refuse(bad, "\"steps\"");
	}
	bad = plan;
	bad.percent[2] = bad.percent[1];
	refuse(bad, "5 is not above 5");
	bad.steps = 0;
	refuse(bad, "\"steps\"");
	bad.steps = WEIR_CANARY_STEPS_MOST + 1;
	refuse(bad, "\"steps\"");
	for (size_t i = 0; i < sizeof(ratios) / sizeof(ratios[0]); i++) {
		bad = plan;
		bad.error_ratio = ratios[i];
		refuse(bad, "\"max_error_ratio\"");
		bad = plan;
		bad.latency_ratio = ratios[i];
		refuse(bad, "\"max_latency_ratio\"");
	}
	bad = plan;
	bad.every_ms = 999;
	refuse(bad, "\"every_ms\"");
	bad = plan;
	bad.min_requests = 0;
	refuse(bad, "\"min_requests\"");
}

TEST(weight_gives_the_share) {
	static const struct {
		double percent;
		uint64_t others;
		uint32_t weight;
	} cases[] = {
		{1, 300, 3},
		{5, 300, 16},
		{50, 300, 300},
		{99, 300, 29700},
		{1, 51, 1}, // 0.52 is rounded up
		{1, 49, 0}, // 0.49 is rounded down: a weight of 1 would give 2 %
		{50, 1, 1},
		{50, 0, 0},
		{99, 10000, WEIR_CANARY_WEIGHT_MOST}, // the maximum weight
		{99, UINT64_C(65535) * 65535, WEIR_CANARY_WEIGHT_MOST},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_int_equal(
			weir_canary_weight(cases[i].percent, cases[i].others), cases[i].weight);
	}
	assert_true(fabs(weir_canary_share(3, 300) - 0.990) < 0.001);
	assert_true(weir_canary_share(0, 300) == 0);
	assert_true(weir_canary_share(0, 0) == 0);
	assert_true(weir_canary_share(7, 0) == 100);
}
