// SPDX-License-Identifier: BSD-3-Clause
#include "draw.h"

#include <math.h>

#include "sim_lab.h"

#define DRAWS 400000

static void check_mean(const struct weir_sim_distribution *distribution, double tolerance) {
	struct weir_prng prng = weir_sim_stream(1, WEIR_SIM_STREAM_CLIENT, 0);
	double sum = 0;

	for (int i = 0; i < DRAWS; i++) {
		double value = weir_sim_draw(distribution, &prng);

		assert_true(value >= 0);
		sum += value;
	}
	lab_near(sum / DRAWS, weir_sim_distribution_mean(distribution), tolerance);
}

TEST(draw_means_are_as_configured) {
	struct weir_sim_part parts[] = {{99, 1000}, {1, 1000000}};
	const struct weir_sim_distribution distributions[] = {
		{.kind = WEIR_SIM_CONSTANT, .mean_ns = 5000},
		{.kind = WEIR_SIM_UNIFORM, .min_ns = 1000, .max_ns = 9000},
		{.kind = WEIR_SIM_EXPONENTIAL, .mean_ns = 5000},
		{.kind = WEIR_SIM_LOGNORMAL, .mean_ns = 5000, .sigma = 0.5},
		{.kind = WEIR_SIM_BOUNDED_PARETO, .alpha = 2.5, .min_ns = 1000, .max_ns = 1000000},
		{.kind = WEIR_SIM_BOUNDED_PARETO, .alpha = 1.0, .min_ns = 1000, .max_ns = 20000},
		{.kind = WEIR_SIM_MIX, .part = parts, .part_count = 2},
	};

	for (size_t i = 0; i < sizeof(distributions) / sizeof(distributions[0]); i++) {
		check_mean(&distributions[i], 0.02);
	}
}

// The cost of a request in the SRE book's example: 15 ms on average, up to 10 s.
TEST(draw_pareto_of_the_book_has_mean_14_7_ms) {
	const struct weir_sim_distribution cost = {.kind = WEIR_SIM_BOUNDED_PARETO,
		.alpha = 1.5,
		.min_ns = 5000000,
		.max_ns = 10000000000ull};

	lab_near(weir_sim_distribution_mean(&cost), 14.666e6, 0.001);
}

TEST(draw_pareto_stays_within_its_bounds) {
	const struct weir_sim_distribution cost = {
		.kind = WEIR_SIM_BOUNDED_PARETO, .alpha = 0.3, .min_ns = 100, .max_ns = 1000};
	struct weir_prng prng = weir_sim_stream(3, WEIR_SIM_STREAM_CLIENT, 0);
	double least = INFINITY, most = 0;

	for (int i = 0; i < DRAWS; i++) {
		double value = weir_sim_draw(&cost, &prng);

		least = fmin(least, value);
		most = fmax(most, value);
	}
	assert_true(least >= 100 - 1e-6 && least < 101);
	assert_true(most <= 1000 + 1e-6 && most > 990);
}

TEST(draw_normal_has_mean_0_and_deviation_1) {
	struct weir_prng prng = weir_sim_stream(9, WEIR_SIM_STREAM_RATES, 0);
	double sum = 0, squares = 0;

	for (int i = 0; i < DRAWS; i++) {
		double value = weir_sim_normal(&prng);

		sum += value;
		squares += value * value;
	}
	assert_true(fabs(sum / DRAWS) < 0.01);
	lab_near(squares / DRAWS, 1.0, 0.01);
}

TEST(draw_uniform_is_below_1_and_fills_its_range) {
	struct weir_prng prng = weir_sim_stream(9, WEIR_SIM_STREAM_RATES, 1);
	uint32_t bucket[10] = {0};

	for (int i = 0; i < DRAWS; i++) {
		double value = weir_sim_uniform(&prng);

		assert_true(value >= 0 && value < 1);
		bucket[(int)(value * 10)]++;
	}
	for (int i = 0; i < 10; i++) {
		lab_near(bucket[i], DRAWS / 10, 0.03);
	}
}

TEST(draw_streams_differ_by_seed_purpose_and_index) {
	uint64_t first[4];

	for (int i = 0; i < 4; i++) {
		struct weir_prng prng = weir_sim_stream(i == 1 ? 2 : 1,
			i == 2 ? WEIR_SIM_STREAM_BACKEND : WEIR_SIM_STREAM_CLIENT, i == 3);

		first[i] = weir_prng_next(&prng);
		for (int k = 0; k < i; k++) {
			assert_true(first[i] != first[k]);
		}
	}
}

// N1: these numbers must never change; otherwise results could not be reproduced.
TEST(draw_stream_is_the_same_everywhere) {
	struct weir_prng prng = weir_sim_stream(1, WEIR_SIM_STREAM_CLIENT, 7);
	struct weir_prng again = weir_sim_stream(1, WEIR_SIM_STREAM_CLIENT, 7);
	uint64_t first = weir_prng_next(&prng);

	assert_int_equal(first, weir_prng_next(&again));
	assert_int_equal(first, UINT64_C(0xf7a96fa7e40e81b5));
}
