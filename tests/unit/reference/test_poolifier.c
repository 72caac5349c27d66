// SPDX-License-Identifier: BSD-3-Clause
//
// Poolifier's strategies: what the recorded vectors do not show, and beside each fault that Weir
// does not share the product's choice. The vectors are replayed by replay-vectors.
#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "poolifier.h"
#include "test.h"

static struct weir_poolifier *create(
	enum weir_poolifier_strategy strategy, uint32_t workers, const double *weights_ms) {
	const struct weir_poolifier_options options = {.strategy = strategy,
		.workers = workers,
		.weights_ms = weights_ms,
		.float32 = true};
	struct weir_poolifier *pool = weir_poolifier_create(&options);

	assert_non_null(pool);
	return pool;
}

static int choose(struct weir_poolifier *pool) {
	uint32_t retries;

	return weir_poolifier_choose(pool, NULL, 0, 0, &retries);
}

static int choose_from(struct weir_poolifier *pool, const uint32_t *set, uint32_t count) {
	uint32_t retries;

	return weir_poolifier_choose(pool, set, count, 0, &retries);
}

static void cost(struct weir_poolifier *pool, double run_ms) {
	for (uint32_t i = 0; i < weir_poolifier_workers(pool); i++) {
		weir_poolifier_sample(pool, i, run_ms, 0, run_ms / 2);
	}
}

static void count(struct weir_poolifier *pool, unsigned int choices, uint32_t *counts) {
	for (unsigned int i = 0; i < choices; i++) {
		int key = choose(pool);

		assert_true(key >= 0);
		counts[key]++;
	}
}

TEST(weights_1_2_3_give_3_5_7) {
	const double weights[] = {100, 200, 300};
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN, 3, weights);
	uint32_t counts[3] = {0};

	cost(pool, 50);
	count(pool, 2 + 5 + 7, counts); // the first turn of all is one shorter
	assert_int_equal(counts[0], 2);
	counts[0] = counts[1] = counts[2] = 0;
	count(pool, 10 * 15, counts);
	assert_int_equal(counts[0], 30);
	assert_int_equal(counts[1], 50);
	assert_int_equal(counts[2], 70);
	weir_poolifier_free(pool);
}

TEST(cost_of_0_never_leaves_the_first_worker) {
	const double weights[] = {100, 200, 300};
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN, 3, weights);
	uint32_t counts[3] = {0};

	count(pool, 100, counts);
	assert_int_equal(counts[0], 100);
	weir_poolifier_free(pool);
}

TEST(weights_stay_with_the_place_of_a_removed_worker) {
	const double weights[] = {100, 200, 400};
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN, 3, weights);
	uint32_t counts[2] = {0};

	cost(pool, 100);
	weir_poolifier_remove(pool, 1);
	assert_int_equal(weir_poolifier_workers(pool), 2);
	count(pool, 1 + 3, counts);
	counts[0] = counts[1] = 0;
	count(pool, 10 * (2 + 3), counts); // the worker of weight 400 now has its neighbour's 200
	assert_int_equal(counts[0], 20);
	assert_int_equal(counts[1], 30);
	weir_poolifier_free(pool);
}

TEST(one_worker_fails_when_its_interleaved_weight_is_spent) {
	const double weight = 100;
	struct weir_poolifier *pool =
		create(WEIR_POOLIFIER_INTERLEAVED_WEIGHTED_ROUND_ROBIN, 1, &weight);

	cost(pool, 50);
	assert_int_equal(choose(pool), 0);
	assert_int_equal(choose(pool), 0);
	assert_int_equal(choose(pool), -EAGAIN);
	weir_poolifier_free(pool);
}

TEST(retries_run_out_with_ready_workers_left) {
	const double weights[] = {1000, 1000, 1000};
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_WEIGHTED_ROUND_ROBIN, 3, weights);
	uint32_t retries = 0;
	int key = 0;

	cost(pool, 10);
	weir_poolifier_set_ready(pool, 1, false);
	for (unsigned int i = 0; i < 200 && key == 0; i++) {
		key = weir_poolifier_choose(pool, NULL, 0, 0, &retries);
	}
	assert_int_equal(key, -EAGAIN);
	assert_int_equal(retries, weir_poolifier_retry_budget(pool));
	assert_int_equal(retries, 6);
	weir_poolifier_free(pool);
}

TEST(burst_without_completion_goes_to_one_worker) {
	const enum weir_poolifier_strategy strategies[] = {
		WEIR_POOLIFIER_FAIR_SHARE, WEIR_POOLIFIER_LEAST_BUSY, WEIR_POOLIFIER_LEAST_ELU};

	for (unsigned int i = 0; i < 3; i++) {
		struct weir_poolifier *pool = create(strategies[i], 4, NULL);
		uint32_t counts[4] = {0};

		cost(pool, 10);
		count(pool, 50, counts);
		assert_int_equal(counts[0], 50);
		weir_poolifier_free(pool);
	}
}

TEST(least_elu_minimises_wait_and_busy_time) {
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_LEAST_ELU, 3, NULL);

	weir_poolifier_sample(pool, 0, 1, 10, 10);
	weir_poolifier_sample(pool, 1, 1, 0, 19);
	weir_poolifier_sample(pool, 2, 1000, 15, 5);
	assert_int_equal(choose(pool), 1);
	weir_poolifier_sample(pool, 1, 1, 1, 0);
	assert_int_equal(choose(pool), 0); // all are equal: the lowest key
	weir_poolifier_set_ready(pool, 0, false);
	assert_int_equal(choose(pool), 1);
	weir_poolifier_free(pool);
}

TEST(only_required_statistics_are_kept) {
	for (int strategy = 0; strategy < WEIR_POOLIFIER_STRATEGY_COUNT; strategy++) {
		struct weir_poolifier *pool = create(strategy, 1, NULL);
		const struct weir_poolifier_usage *usage = weir_poolifier_usage(pool, 0);
		bool run = strategy != WEIR_POOLIFIER_ROUND_ROBIN &&
			   strategy != WEIR_POOLIFIER_LEAST_USED &&
			   strategy != WEIR_POOLIFIER_LEAST_ELU;
		bool elu = strategy == WEIR_POOLIFIER_LEAST_ELU ||
			   strategy == WEIR_POOLIFIER_FAIR_SHARE;
		bool window = run && strategy != WEIR_POOLIFIER_LEAST_BUSY;

		(void)state;
		weir_poolifier_sample(pool, 0, 10, 20, 30);
		assert_int_equal(usage->run.has_aggregate, run);
		assert_int_equal(usage->elu_active.has_aggregate, elu);
		assert_int_equal(usage->wait.has_aggregate, run || elu);
		assert_int_equal(usage->run.samples, window);
		assert_int_equal(!isnan(usage->run.average), window);
		assert_true(isnan(usage->run.median));
		weir_poolifier_free(pool);
	}
}

TEST(added_worker_starts_from_the_least_sum) {
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_LEAST_BUSY, 2, NULL);

	weir_poolifier_sample(pool, 0, 30, 5, 0);
	weir_poolifier_sample(pool, 1, 20, 9, 0);
	assert_int_equal(weir_poolifier_add(pool), 2);
	assert_true(weir_poolifier_usage(pool, 2)->run.aggregate == 20);
	assert_true(weir_poolifier_usage(pool, 2)->wait.aggregate == 5);
	assert_int_equal(choose(pool), 2);
	weir_poolifier_free(pool);

	pool = create(WEIR_POOLIFIER_LEAST_BUSY, 1, NULL);
	weir_poolifier_add(pool); // nobody has done anything: the original starts it at infinity
	assert_true(isinf(weir_poolifier_usage(pool, 1)->run.aggregate));
	weir_poolifier_free(pool);
}

TEST(removed_worker_hands_on_its_place) {
	struct weir_poolifier *pool = create(WEIR_POOLIFIER_FAIR_SHARE, 3, NULL);

	for (uint32_t i = 0; i < 3; i++) {
		weir_poolifier_sample(pool, i, 10.0 * (i + 1), 0, 0);
	}
	assert_int_equal(choose(pool), 0);
	assert_true(weir_poolifier_virtual_end(pool, 2) == 30);
	weir_poolifier_remove(pool, 1);
	assert_true(weir_poolifier_virtual_end(pool, 0) == 10);
	assert_true(isnan(weir_poolifier_virtual_end(pool, 1)));
	weir_poolifier_remove(pool, 1);
	weir_poolifier_remove(pool, 0);
	assert_int_equal(weir_poolifier_workers(pool), 0);
	assert_int_equal(choose(pool), -EAGAIN);
	weir_poolifier_free(pool);
}

TEST(every_strategy_keeps_to_the_set) {
	const double weights[] = {100, 50, 200, 70};
	const uint32_t set[] = {1, 3};

	for (int strategy = 0; strategy < WEIR_POOLIFIER_STRATEGY_COUNT; strategy++) {
		struct weir_poolifier *pool = create(strategy, 4, weights);

		cost(pool, 30);
		for (unsigned int i = 0; i < 20; i++) {
			int key = choose_from(pool, set, 2);

			assert_true(key == 1 || key == 3);
		}
		assert_int_equal(choose_from(pool, set + 1, 1), 3);
		assert_int_equal(choose_from(pool, set, 0), -EAGAIN);
		weir_poolifier_set_ready(pool, 3, false);
		assert_int_equal(choose_from(pool, set + 1, 1), -EAGAIN);
		weir_poolifier_free(pool);
	}
}

TEST(window_and_rounding_are_options) {
	struct weir_poolifier_options options = {
		.strategy = WEIR_POOLIFIER_FAIR_SHARE, .workers = 1, .window = 2};
	struct weir_poolifier *pool = weir_poolifier_create(&options);

	weir_poolifier_sample(pool, 0, 100, 0, 0);
	weir_poolifier_sample(pool, 0, 0.1, 0, 0);
	weir_poolifier_sample(pool, 0, 0.1, 0, 0);
	assert_true(weir_poolifier_usage(pool, 0)->run.average == 0.1);
	assert_true(weir_poolifier_usage(pool, 0)->run.maximum == 100);
	weir_poolifier_free(pool);
	options.float32 = true;
	pool = weir_poolifier_create(&options);
	weir_poolifier_sample(pool, 0, 0.1, 0, 0);
	assert_true(weir_poolifier_usage(pool, 0)->run.average == (double)0.1f);
	weir_poolifier_free(pool);
}

TEST(options_out_of_range_are_refused) {
	const struct weir_poolifier_options none = {.workers = 0};
	const struct weir_poolifier_options unknown = {
		.workers = 1, .strategy = WEIR_POOLIFIER_STRATEGY_COUNT};

	assert_null(weir_poolifier_create(&none));
	assert_null(weir_poolifier_create(&unknown));
	assert_int_equal(weir_poolifier_parse("LEAST_ELU"), WEIR_POOLIFIER_LEAST_ELU);
	assert_int_equal(weir_poolifier_parse("least_elu"), -EINVAL);
	assert_string_equal(weir_poolifier_name(WEIR_POOLIFIER_FAIR_SHARE), "FAIR_SHARE");
	assert_null(weir_poolifier_name(WEIR_POOLIFIER_STRATEGY_COUNT));
	weir_poolifier_free(NULL);
}

TEST(default_weight_jumps_at_a_thousand_megahertz) {
	const uint32_t below = 999, at = 1000, unknown[] = {0, 0};

	assert_true(weir_poolifier_weight(&below, 1) == 10);
	assert_true(weir_poolifier_weight(&at, 1) == 1000);
	assert_true(weir_poolifier_weight(unknown, 2) == 500);
	assert_true(weir_poolifier_weight(NULL, 0) == 0);
}
