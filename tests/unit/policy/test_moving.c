// SPDX-License-Identifier: BSD-3-Clause
//
// Moving statistics: comparison with a simple implementation, edge cases, and use as costs.
#include <stdlib.h>

#include "moving.h"
#include "test.h"

#define MS UINT64_C(1000000)
#define TTL (180000 * MS)

static uint64_t next_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

static struct weir_moving_stats read(const struct weir_moving *moving) {
	struct weir_moving_stats stats;

	weir_moving_read(moving, &stats);
	return stats;
}

static int compare(const void *left, const void *right) {
	uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;

	return (a > b) - (a < b);
}

// Computes the statistics of the last `window` of n samples directly, and compares them.
static void check_plainly(const struct weir_moving *moving, const uint64_t *samples, uint32_t n,
	uint32_t window, bool median) {
	struct weir_moving_stats stats = read(moving);
	uint32_t count = n < window ? n : window;
	uint64_t *sorted = calloc(count, sizeof(*sorted));
	uint64_t sum = 0;

	assert_non_null(sorted);
	for (uint32_t i = 0; i < count; i++) {
		sorted[i] = samples[n - count + i];
		sum += sorted[i];
	}
	qsort(sorted, count, sizeof(*sorted), compare);
	assert_int_equal(stats.window_count, count);
	assert_int_equal(stats.window_sum_ns, sum);
	assert_int_equal(stats.mean_ns, (sum + count / 2) / count);
	if (median) {
		assert_int_equal(
			stats.median_ns, (sorted[(count - 1) / 2] + sorted[count / 2]) / 2);
	} else {
		assert_int_equal(stats.median_ns, 0);
	}
	free(sorted);
}

TEST(window_slides_over_the_samples) {
	const uint32_t windows[] = {1, 2, 3, 7, 386};
	uint64_t samples[1000];

	for (unsigned int w = 0; w < 5; w++) {
		for (unsigned int median = 0; median < 2; median++) {
			struct weir_moving *moving = weir_moving_create(windows[w], median);
			uint64_t seed = w + 1;

			assert_non_null(moving);
			for (uint32_t i = 0; i < 1000; i++) {
				// A third of the samples have only five different values, so that
				// equal values enter and leave the window.
				samples[i] = next_random(&seed) % (i % 3 == 0 ? 5 : 1000 * MS);
				weir_moving_add(moving, samples[i], i);
				check_plainly(moving, samples, i + 1, windows[w], median);
			}
			weir_moving_free(moving);
		}
	}
}

// Many equal samples can be added in one call. The result is the same as with one call per sample.
TEST(runs_of_equal_samples) {
	const uint32_t windows[] = {1, 2, 7, 386};

	for (unsigned int i = 0; i < 8; i++) {
		uint32_t window = windows[i / 2];
		struct weir_moving *singly = weir_moving_create(window, i % 2);
		struct weir_moving *many = weir_moving_create(window, i % 2);
		uint64_t seed = i + 1;

		assert_true(singly != NULL && many != NULL);
		for (uint32_t turn = 0; turn < 2000; turn++) {
			uint64_t sample = next_random(&seed) % (turn % 3 == 0 ? 5 : 1000 * MS);
			uint64_t n = next_random(&seed) % (turn % 7 == 0 ? 3 * window : 4);
			struct weir_moving_stats a, b;

			for (uint64_t k = 0; k < n; k++) {
				weir_moving_add(singly, sample, turn);
			}
			weir_moving_add_many(many, sample, n, turn);
			a = read(singly);
			b = read(many);
			assert_int_equal(a.count, b.count);
			assert_int_equal(a.sum_ns, b.sum_ns);
			assert_int_equal(a.most_ns - a.least_ns, b.most_ns - b.least_ns);
			assert_int_equal(a.window_count, b.window_count);
			assert_int_equal(a.window_sum_ns, b.window_sum_ns);
			assert_int_equal(a.median_ns, b.median_ns);
			assert_int_equal(a.last_ns, b.last_ns);
		}
		weir_moving_free(singly);
		weir_moving_free(many);
	}
}

TEST(huge_counts_do_not_overflow) {
	struct weir_moving *moving = weir_moving_create(10, false);

	assert_non_null(moving);
	weir_moving_add_many(moving, 5 * MS, UINT64_MAX / 2, 0);
	assert_int_equal(read(moving).mean_ns, 5 * MS);
	assert_int_equal(read(moving).window_count, 10);
	assert_int_equal(read(moving).sum_ns, UINT64_MAX);
	weir_moving_add_many(moving, UINT64_MAX, 1000000, 0);
	assert_int_equal(read(moving).mean_ns, UINT64_MAX / 10);
	weir_moving_free(moving);
}

TEST(lifetime_is_not_windowed) {
	struct weir_moving *moving = weir_moving_create(3, false);
	struct weir_moving_stats stats;

	assert_non_null(moving);
	stats = read(moving);
	assert_int_equal(stats.count + stats.sum_ns + stats.least_ns + stats.most_ns, 0);
	for (uint64_t i = 1; i <= 10; i++) {
		weir_moving_add(moving, i * MS, i);
	}
	stats = read(moving);
	assert_int_equal(stats.count, 10);
	assert_int_equal(stats.sum_ns, 55 * MS);
	assert_int_equal(stats.least_ns, MS);
	assert_int_equal(stats.most_ns, 10 * MS);
	assert_int_equal(stats.last_ns, 10);
	assert_int_equal(stats.mean_ns, 9 * MS);
	weir_moving_reset(moving);
	stats = read(moving);
	assert_int_equal(stats.count + stats.window_count + stats.sum_ns + stats.most_ns, 0);
	weir_moving_add(moving, 4, 1);
	assert_int_equal(read(moving).mean_ns, 4);
	weir_moving_free(moving);
}

TEST(median_is_not_moved_by_an_outlier) {
	struct weir_moving *mean = weir_moving_create(WEIR_MOVING_WINDOW, false);
	struct weir_moving *median = weir_moving_create(WEIR_MOVING_WINDOW, true);

	for (unsigned int i = 0; i < 5; i++) {
		weir_moving_add(mean, i < 4 ? 10 * MS : 10000 * MS, 0);
		weir_moving_add(median, i < 4 ? 10 * MS : 10000 * MS, 0);
	}
	assert_int_equal(weir_moving_estimate_ns(mean, 0, TTL), 2008 * MS);
	assert_int_equal(weir_moving_estimate_ns(median, 0, TTL), 10 * MS);
	weir_moving_free(mean);
	weir_moving_free(median);
}

TEST(huge_samples_do_not_overflow) {
	struct weir_moving *moving = weir_moving_create(4, true);
	struct weir_moving_stats stats;

	for (unsigned int i = 0; i < 9; i++) {
		weir_moving_add(moving, UINT64_MAX, 0);
	}
	stats = read(moving);
	assert_int_equal(stats.mean_ns, UINT64_MAX / 4);
	assert_int_equal(stats.median_ns, UINT64_MAX / 4);
	assert_int_equal(stats.sum_ns, UINT64_MAX);
	for (unsigned int i = 0; i < 4; i++) {
		weir_moving_add(moving, 1, 0);
	}
	stats = read(moving);
	assert_int_equal(stats.mean_ns, 1);
	assert_int_equal(stats.median_ns, 1);
	weir_moving_free(moving);
}

TEST(estimate_is_unknown_without_a_recent_sample) {
	struct weir_moving *moving = weir_moving_create(8, false);

	assert_int_equal(weir_moving_estimate_ns(moving, 5, TTL), 0);
	weir_moving_add(moving, 7 * MS, 1000);
	assert_int_equal(weir_moving_estimate_ns(moving, 1000 + TTL - 1, TTL), 7 * MS);
	assert_int_equal(weir_moving_estimate_ns(moving, 1000 + TTL, TTL), 0);
	// a time from another clock
	assert_int_equal(weir_moving_estimate_ns(moving, 1, TTL), 7 * MS);
	weir_moving_add(moving, 9 * MS, 2 * TTL);
	assert_int_equal(weir_moving_estimate_ns(moving, 2 * TTL, TTL), 8 * MS);
	weir_moving_free(moving);
}

TEST(known_estimate_is_never_0) {
	struct weir_moving *moving = weir_moving_create(8, true);

	weir_moving_add(moving, 0, 0);
	assert_int_equal(weir_moving_estimate_ns(moving, 0, TTL), 1);
	weir_moving_free(moving);
}

TEST(window_of_0_is_refused) {
	assert_null(weir_moving_create(0, false));
	weir_moving_free(NULL);
}

TEST(unknown_backend_costs_the_mean_of_the_known) {
	uint64_t estimates[] = {10 * MS, 0, 30 * MS, 0};
	uint64_t costs[4];

	weir_moving_costs(estimates, 4, costs);
	assert_int_equal(costs[0], 10 * MS);
	assert_int_equal(costs[1], 20 * MS);
	assert_int_equal(costs[2], 30 * MS);
	assert_int_equal(costs[3], 20 * MS);
	weir_moving_costs(estimates, 4, estimates); // the result replaces the input
	assert_memory_equal(estimates, costs, sizeof(costs));
}

TEST(costs_are_0_when_none_is_known) {
	const uint64_t none[] = {0, 0};
	const uint64_t huge[] = {UINT64_MAX, 0, UINT64_MAX};
	uint64_t costs[3] = {7, 7, 7};

	weir_moving_costs(none, 2, costs);
	assert_int_equal(costs[0] + costs[1], 0);
	assert_int_equal(costs[2], 7);
	weir_moving_costs(huge, 3, costs);
	assert_int_equal(costs[1], UINT64_MAX);
	weir_moving_costs(none, 0, NULL);
}
