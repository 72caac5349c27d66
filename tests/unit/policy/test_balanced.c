// SPDX-License-Identifier: BSD-3-Clause
//
// Balanced weights in a control loop: backends of different speeds, delayed reports, limits, and
// backends that stop reporting.
#include <math.h>

#include "balanced.h"
#include "test.h"

#define SECOND UINT64_C(1000000000)
#define N 4

struct loop {
	struct weir_balanced_settings settings;
	struct weir_balanced_load load[N];
	double correction[N];
	double speed[N];
	uint64_t now_ns;
};

static struct loop loop_of(double a, double b, double c, double d) {
	return (struct loop){.settings = weir_balanced_defaults(),
		.speed = {a, b, c, d},
		.now_ns = 100 * SECOND};
}

// Returns the utilization of a backend from its share of the load. The load is half of the total
// capacity.
static double used(const struct loop *loop, uint32_t i) {
	double weights = 0, capacity = 0;

	for (uint32_t k = 0; k < N; k++) {
		weights += weir_balanced_weight(100, loop->correction[k]);
		capacity += loop->speed[k];
	}
	return 0.5 * capacity * weir_balanced_weight(100, loop->correction[i]) / weights /
	       loop->speed[i];
}

static double spread(const struct loop *loop) {
	double least = INFINITY, most = 0;

	for (uint32_t i = 0; i < N; i++) {
		least = fmin(least, used(loop, i));
		most = fmax(most, used(loop, i));
	}
	return most / least;
}

static bool step(struct loop *loop, bool silent) {
	double utilization[N];

	loop->now_ns += SECOND;
	for (uint32_t i = 0; i < N; i++) {
		if (!silent) {
			weir_balanced_report(&loop->load[i], &loop->settings, used(loop, i), 100, 0,
				loop->now_ns);
		}
		utilization[i] = weir_balanced_read(&loop->load[i], &loop->settings, loop->now_ns);
	}
	return weir_balanced_step(&loop->settings, utilization, loop->correction, N, SECOND);
}

TEST(speeds_are_found) {
	struct loop loop = loop_of(0.5, 1, 1, 4);
	double least = INFINITY;

	assert_true(spread(&loop) > 7.9);
	for (uint32_t i = 0; i < 120; i++) {
		step(&loop, false);
		// The load of the slowest backend never drops far below its fair load.
		least = fmin(least, used(&loop, 0));
	}
	assert_true(spread(&loop) < 1.02);
	assert_true(least > 0.4); // the fair load is 0.5
}

TEST(change_is_bounded) {
	struct loop loop = loop_of(0.001, 1, 1, 1000);

	for (uint32_t i = 0; i < 1000; i++) {
		double before[N];

		for (uint32_t k = 0; k < N; k++) {
			before[k] = loop.correction[k];
		}
		step(&loop, false);
		// The gain changes a correction by at most 0.1, and centring by at most another
		// 0.1.
		for (uint32_t k = 0; k < N; k++) {
			assert_true(fabs(loop.correction[k] - before[k]) <= 0.2 + 1e-9);
			assert_true(fabs(loop.correction[k]) <= log(10) + 1e-9);
		}
	}
}

// When reports stop, their effect decays. Finally the configured weights apply again.
TEST(silence) {
	struct loop loop = loop_of(0.5, 1, 1, 2);
	double before;

	for (uint32_t i = 0; i < 60; i++) {
		step(&loop, false);
	}
	for (uint32_t i = 0; i < 12; i++) {
		step(&loop, true);
	}
	before = loop.correction[0];
	assert_true(before < -0.3);
	for (uint32_t i = 0; i < 160; i++) {
		assert_true(step(&loop, true));
		assert_true(fabs(loop.correction[0] - before) < 1e-9);
	}
	// the correction is unchanged for 180 s, and then decays
	for (uint32_t i = 0; i < 15; i++) {
		step(&loop, true);
	}
	assert_true(loop.correction[0] / before > 0.3 && loop.correction[0] / before < 0.8);
	for (uint32_t i = 0; i < 60; i++) {
		step(&loop, true);
	}
	assert_false(step(&loop, true));
	assert_true(loop.correction[0] == 0);
}

TEST(errors_and_flows_in_progress_are_load) {
	struct weir_balanced_settings settings = weir_balanced_defaults();
	struct weir_balanced_load load = {0};

	weir_balanced_report(&load, &settings, 0.1, 100, 100, SECOND);
	assert_true(fabs(weir_balanced_read(&load, &settings, SECOND) - 1.1) < 1e-9);
	weir_balanced_report(&load, &settings, 0.1, 100, 0, 7 * SECOND); // the report is smoothed
	assert_true(load.utilization > 0.3 && load.utilization < 0.5);
	assert_true(weir_balanced_utilization(0.5, 80, 100) == 0.8);
	assert_true(weir_balanced_utilization(0.5, 80, 0) == 0.5);
	assert_true(weir_balanced_read(&load, &settings, 17 * SECOND) == WEIR_BALANCED_HOLD);
	assert_true(weir_balanced_read(&load, &settings, 187 * SECOND) == WEIR_BALANCED_UNKNOWN);
}

// A backend with extreme reports does not prevent the loop from finding the speeds of the other
// backends.
TEST(extreme_reports_of_one_do_not_affect_the_others) {
	struct loop loop = loop_of(0.5, 1, 2, 1);

	for (int second = 0; second < 300; second++) {
		double utilization[N];

		for (uint32_t i = 0; i < N; i++) {
			utilization[i] = i == 3 ? 1e6 : used(&loop, i);
		}
		weir_balanced_step(&loop.settings, utilization, loop.correction, N, SECOND);
	}
	assert_true(fabs(used(&loop, 0) / used(&loop, 1) - 1) < 0.1);
	assert_true(fabs(used(&loop, 2) / used(&loop, 1) - 1) < 0.1);
	assert_true(used(&loop, 3) < used(&loop, 1) / 10);
}

// A single backend cannot be compared with other backends, and idle backends count as equal.
TEST(nothing_to_compare) {
	struct weir_balanced_settings settings = weir_balanced_defaults();
	const double alone[] = {0.9, WEIR_BALANCED_UNKNOWN}, idle[] = {0.01, 0.001};
	double correction[] = {0, 0};

	assert_false(weir_balanced_step(&settings, alone, correction, 2, SECOND));
	assert_false(weir_balanced_step(&settings, idle, correction, 2, SECOND));
	assert_false(weir_balanced_step(&settings, idle, correction, 0, SECOND));
}
