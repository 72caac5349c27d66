// SPDX-License-Identifier: BSD-3-Clause
#include "shed_mean.h"

#include <errno.h>

#include "agent_message.h"
#include "test.h"

static struct weir_shed_level level_of(
	const uint64_t flows[3], const uint32_t weights[3], uint32_t of) {
	struct weir_shed_sum sum = {0};
	struct weir_shed_level level = {.flows = 77};

	for (uint32_t i = 0; i < 3; i++) {
		weir_shed_sum_add(&sum, flows[i], weights[i]);
	}
	assert_int_equal(weir_shed_level(&sum, flows[of], weights[of], &level), 0);
	assert_int_equal(level.flows, flows[of]);
	return level;
}

#define EXPECT(mean_, above_, of, weights, ...) \
	do { \
		struct weir_shed_level got = \
			level_of((const uint64_t[3]){__VA_ARGS__}, weights, of); \
		assert_int_equal(got.mean, mean_); \
		assert_int_equal(got.above, above_); \
	} while (0)

TEST(mean_is_by_weight_and_rounded_up) {
	static const uint32_t equal[3] = {100, 100, 100}, unequal[3] = {300, 100, 100};
	static const uint32_t zero[3] = {0, 100, 100};

	EXPECT(20, 10, 0, equal, 30, 30, 0);
	EXPECT(20, 0, 2, equal, 30, 30, 0);
	EXPECT(21, 10, 0, equal, 31, 30, 0); // 20.33
	EXPECT(20, 0, 0, equal, 20, 20, 20);
	EXPECT(1, 0, 0, equal, 1, 0, 0); // 0.33: the only flow stays
	EXPECT(0, 0, 0, equal, 0, 0, 0);
	EXPECT(36, 0, 0, unequal, 36, 24, 0);
	EXPECT(36, 14, 0, unequal, 50, 10, 0);
	EXPECT(12, 18, 1, unequal, 20, 30, 10);
	EXPECT(0, 30, 0, zero, 30, 30, 0);
	EXPECT(UINT64_C(11453246123), UINT64_C(22906492245), 0, equal, UINT64_C(1) << 35, 0,
		1); // no overflow
}

TEST(mean_needs_another_backend) {
	struct weir_shed_sum sum = {0};
	struct weir_shed_level level = {.mean = 77};

	weir_shed_sum_add(&sum, 100, 100);
	assert_int_equal(weir_shed_level(&sum, 100, 100, &level), -ENOENT);
	weir_shed_sum_add(&sum, 0, 100);
	assert_int_equal(weir_shed_level(&sum, 100, 100, &level), 0);
	sum.weight = 0;
	assert_int_equal(weir_shed_level(&sum, 100, 0, &level), -ENOENT);
	assert_int_equal(level.mean, 50);
}

TEST(mean_is_only_raised) {
	struct weir_shed_level level = {.flows = 30, .mean = 20, .above = 10};

	weir_shed_level_raise(&level, 15);
	assert_true(level.mean == 20 && level.above == 10);
	weir_shed_level_raise(&level, 25);
	assert_true(level.mean == 25 && level.above == 5);
	weir_shed_level_raise(&level, 40);
	assert_true(level.mean == 40 && level.above == 0);
}

static void expect_step(
	uint64_t above, uint64_t left, uint32_t rate_milli, uint32_t count, uint32_t duration_ms) {
	struct weir_shed_step step = weir_shed_step(above, left, rate_milli, 1);

	assert_int_equal(step.count, count);
	assert_int_equal(step.duration_ms, duration_ms);
}

// An ended flow is counted for the timeout, and at most a sixteenth of the timeout longer. Flows
// that end later do not prolong this time.
TEST(gone_flows_expire_one_by_one) {
	static const uint32_t timeouts_ms[] = {100, 16000, 900000, 86400000};

	for (size_t t = 0; t < sizeof(timeouts_ms) / sizeof(timeouts_ms[0]); t++) {
		const uint64_t timeout_ms = timeouts_ms[t], step_ms = timeout_ms / 40 + 1;
		struct weir_shed_gone gone = {0};

		// One flow ends at the end of each step, for three times the timeout.
		for (uint64_t i = 1; i <= 120; i++) {
			const uint64_t now_ms = 1000000 + i * step_ms;
			uint64_t least = 0, most = 0;

			weir_shed_gone_add(&gone, 1, now_ms, (uint32_t)timeout_ms);
			for (uint64_t j = 1; j <= i; j++) {
				const uint64_t age_ms = (i - j) * step_ms;

				least += age_ms < timeout_ms;
				most += age_ms < timeout_ms + timeout_ms / 16 + 1;
			}
			assert_in_range(weir_shed_gone_count(&gone, now_ms), least, most);
		}
		assert_int_equal(
			weir_shed_gone_count(&gone, 1000000 + 120 * step_ms + timeout_ms), 0);
	}
}

TEST(order_of_two_seconds_has_the_connections_of_two) {
	static const struct {
		uint32_t rate_milli, count, duration_ms;
	} cases[] = {{50000, 100, 2000}, {1500, 3, 2000}, {500, 1, 2000}, {200, 1, 5000},
		{1000000, 2000, 2000}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_shed_step step = weir_shed_step(5000, 5000, cases[i].rate_milli, 2);

		assert_int_equal(step.count, cases[i].count);
		assert_int_equal(step.duration_ms, cases[i].duration_ms);
	}
	assert_int_equal(weir_shed_step(7, 5000, 50000, 2).count, 7);
	assert_int_equal(weir_shed_step(5000, 8, 50000, 2).count, 8);
}

TEST(order_is_of_one_second_and_never_above_a_bound) {
	expect_step(1000, 1000, 50000, 50, 1000);
	expect_step(20, 1000, 50000, 20, 1000);
	expect_step(1000, 7, 50000, 7, 1000);
	expect_step(0, 1000, 50000, 0, 1000);
	expect_step(1000, 0, 50000, 0, 1000);
	expect_step(1000, 1000, 1000, 1, 1000);
	expect_step(1000, 1000, 1999, 1, 1000);
	// If the rate is below one connection per second, the order is for one connection and lasts
	// longer.
	expect_step(1000, 1000, 500, 1, 2000);
	expect_step(1000, 1000, WEIR_SHED_RATE_LEAST_MILLI, 1, WEIR_AGENT_STEAL_AHEAD_MS);
	expect_step(UINT64_MAX, UINT64_MAX, UINT32_MAX, WEIR_AGENT_SHED_COUNT_MOST, 1000);
}
