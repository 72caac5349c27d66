// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <math.h>
#include <stdbool.h>

#include "order.h"
#include "statistics.h"
#include "test.h"

static bool near(double a, double b) {
	return fabs(a - b) < 1e-6;
}

TEST(percentiles_are_nearest_ranks) {
	static const struct {
		double share;
		size_t n;
		double value; // values are 1 .. n
	} cases[] = {
		{0.5, 1, 1},
		{0.5, 2, 1},
		{0.5, 3, 2},
		{0.99, 1, 1},
		{0.99, 99, 99},
		{0.99, 100, 99},
		{0.99, 101, 100},
		{0.9999, 10000, 9999},
		{0.9999, 9999, 9999},
		{0.9999, 20000, 19998},
		{1, 50, 50},
		{0.001, 50, 1},
	};
	static double values[20000];

	for (unsigned int i = 0; i < 20000; i++) {
		values[i] = i + 1;
	}
	for (unsigned int i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		assert_true(near(
			weir_bench_percentile(values, cases[i].n, cases[i].share), cases[i].value));
	}
}

TEST(summaries) {
	double one[] = {7}, even[] = {4, 1, 3, 2}, odd[] = {100, 1, 3};
	struct weir_bench_summary s = weir_bench_summarize(one, 1);

	assert_true(s.median == 7 && s.min == 7 && s.max == 7 && s.mean == 7 && s.p99 == 7 &&
		    s.p9999 == 7);
	s = weir_bench_summarize(even, 4);
	assert_true(near(s.median, 2.5) && s.min == 1 && s.max == 4 && near(s.mean, 2.5));
	s = weir_bench_summarize(odd, 3);
	assert_true(s.median == 3 && s.max == 100 && s.p99 == 100);
}

// The mean is computed over all packets, so a short burst has less weight.
TEST(bursts_of_different_length) {
	const struct weir_bench_sample samples[] = {{640, 64, 64}, {20, 1, 1}, {700, 64, 0}};
	struct weir_bench_summary s;

	assert_int_equal(weir_bench_summarize_bursts(samples, 3, &s), 0);
	assert_true(near(s.median, 700.0 / 64));
	assert_true(near(s.min, 10) && near(s.max, 20));
	assert_true(near(s.mean, 1360.0 / 129));
}

TEST(split_finds_both_costs) {
	struct weir_bench_random random = {.state = 1};
	static struct weir_bench_sample samples[5000];
	struct weir_bench_split split;

	for (unsigned int i = 0; i < 5000; i++) {
		uint16_t steady = (uint16_t)weir_bench_random_below(&random, 65);
		uint32_t noise = weir_bench_random_below(&random, 101); // 50 cycles on average

		samples[i] = (struct weir_bench_sample){
			.packets = 64, .steady = steady, .cycles = noise};
		samples[i].cycles += steady * 70u + (64u - steady) * 180u;
		if (i % 200 == 0) {
			samples[i].cycles += 1000000; // simulated interrupt
		}
	}
	assert_int_equal(weir_bench_split_bursts(samples, 5000, &split), 0);
	// The mean noise of 50 cycles per burst is divided among the 64 packets.
	assert_true(fabs(split.steady - 70.8) < 0.5);
	assert_true(fabs(split.other - 180.8) < 0.5);
}

TEST(split_of_one_kind_is_the_mean) {
	struct weir_bench_sample samples[100];
	struct weir_bench_split split;

	for (unsigned int i = 0; i < 100; i++) {
		samples[i] = (struct weir_bench_sample){i < 50 ? 640 : 1280, 64, 64};
	}
	assert_int_equal(weir_bench_split_bursts(samples, 100, &split), 0);
	assert_true(near(split.steady, 15) && split.other == 0);
	for (unsigned int i = 0; i < 100; i++) {
		samples[i].steady = 32; // all shares are equal, so the costs cannot be separated
	}
	assert_int_equal(weir_bench_split_bursts(samples, 100, &split), 0);
	assert_true(near(split.steady, 15) && split.other == 0);
}

TEST(samples_grow) {
	struct weir_bench_samples samples = {0};

	weir_bench_samples_add(&samples, (struct weir_bench_sample){1, 1, 1});
	assert_int_equal(samples.count, 0); // a sample that does not fit is dropped
	assert_int_equal(weir_bench_samples_reserve(&samples, 2), 0);
	for (uint32_t i = 0; i < 3; i++) {
		weir_bench_samples_add(&samples, (struct weir_bench_sample){i, 1, 1});
	}
	assert_int_equal(samples.count, 2);
	assert_int_equal(weir_bench_samples_reserve(&samples, 1000), 0);
	assert_int_equal(samples.count, 2);
	assert_int_equal(samples.sample[1].cycles, 1);
	weir_bench_samples_fini(&samples);
	assert_null(samples.sample);
}

TEST(minimum_is_taken_for_each_burst) {
	struct weir_bench_sample first[] = {{640, 64, 60}, {99999, 64, 61}, {70, 7, 7}};
	struct weir_bench_sample second[] = {{88888, 64, 60}, {650, 64, 61}, {70, 7, 7}};
	struct weir_bench_samples samples = {first, 3, 3}, again = {second, 3, 3};
	const struct weir_bench_sample least[] = {{640, 64, 60}, {650, 64, 61}, {70, 7, 7}};

	assert_int_equal(weir_bench_samples_least(&samples, &again), 0);
	assert_memory_equal(first, least, sizeof(least));
	assert_int_equal(second[0].cycles, 88888);
	again.count = 2;
	assert_int_equal(weir_bench_samples_least(&samples, &again), -EBADMSG);
}

TEST(share_above_a_limit) {
	const struct weir_bench_sample samples[] = {
		{640, 64, 0}, {6400, 64, 0}, {6401, 64, 0}, {101, 1, 0}, {UINT32_MAX, 64, 0}};

	assert_true(weir_bench_share_above(samples, 1, 10) == 0);
	assert_true(weir_bench_share_above(samples, 5, 100) == 3 / 5.0);
	assert_true(weir_bench_share_above(samples, 5, 9.5) == 1);
}
