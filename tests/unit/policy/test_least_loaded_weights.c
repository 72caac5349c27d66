// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: the flows in progress follow the weights of the backends.
#include "policy_lab.h"

#define LL WEIR_POLICY_LEAST_LOADED

TEST(flows_in_progress_follow_the_weights) {
	static const uint32_t weights[] = {100, 200, 500, 0x7fff, 1};
	struct world *w = world_create(5);
	uint32_t sum = 0;

	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 8000; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[0].active, 1000);
	assert_int_equal(w->backends[1].active, 2000);
	assert_int_equal(w->backends[2].active, 5000);
	// Weights can change at any time.
	world_publish(w, LL, NULL, (const uint32_t[]){500, 200, 100}, 3);
	for (uint32_t i = 0; i < 32000; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[0].active, 25000);
	assert_int_equal(w->backends[1].active, 10000);
	assert_int_equal(w->backends[2].active, 5000);
	world_publish(w, LL, NULL, NULL, 3);
	for (uint32_t i = 0; i < 35000; i++) {
		world_flow(w);
	}
	for (uint16_t id = 0; id < 3; id++) {
		assert_int_equal(w->backends[id].active, 25000);
	}
	for (uint32_t i = 0; i < 5; i++) {
		sum += weights[i];
	}
	world_free(w);
	w = world_create(5);
	world_publish(w, LL, NULL, weights, 5);
	for (uint32_t i = 0; i < 10 * sum; i++) {
		world_flow(w);
	}
	for (uint32_t i = 0; i < 5; i++) {
		// 16 bits are not enough for these weights: an error of at most weight / 131,070
		uint32_t error = 1 + (uint32_t)(10.0 * weights[i] * weights[i] / 131070);

		assert_in_range(
			w->backends[i].active, 10 * weights[i] - error, 10 * weights[i] + error);
	}
	world_free(w);
}

// Errors count as active flows, so they are divided by the weight, too.
TEST(errors_are_divided_by_the_weight) {
	struct world *w = world_create(2);

	world_publish(w, LL, NULL, (const uint32_t[]){1, 4}, 2);
	for (uint32_t i = 0; i < 4; i++) {
		world_start(w, 1);
		world_end(w, 1, WEIR_OUTCOME_UNANSWERED);
	}
	world_start(w, 0);
	world_start(w, 0);
	WORLD_EXPECT(w, 1, 1);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	WORLD_EXPECT(w, 0, 0);
	world_free(w);
}

// The load of the chosen backend over its weight is the least of all, as exact as the strides.
TEST(arbitrary_weights_and_loads) {
	uint64_t seed = 3;

	for (uint32_t round = 0; round < 400; round++) {
		uint32_t n = 2 + (uint32_t)(fixture_random(&seed) % 300), weights[302];
		struct world *w = world_create(n);
		double least = 1e300, error = 0;
		uint16_t chosen;

		for (uint32_t i = 0; i < n; i++) {
			weights[i] = 1 + (uint32_t)(fixture_random(&seed) % 65535);
			w->backends[i].active = (uint32_t)(fixture_random(&seed) % 5000000) + 1;
		}
		world_publish(w, LL, NULL, weights, n);
		for (uint32_t i = 0; i < n; i++) {
			double load = (double)w->backends[i].active / weights[i];

			least = load < least ? load : least;
			error = w->candidates[i].stride != 0 &&
						0.5 / w->candidates[i].stride > error
					? 0.5 / w->candidates[i].stride
					: error;
		}
		chosen = world_choose(w);
		assert_true((double)w->backends[chosen].active / weights[chosen] <=
			    least * (1 + 2.1 * error) + 1e-9);
		world_free(w);
	}
}

// Products of loads and factors that do not fit into a key make the keys coarser, but not equal.
TEST(loads_too_large_for_exact_keys) {
	static const uint32_t weights[] = {65535, 65521, 9973};
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->backends[i].active = weights[i] * 200;
	}
	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 141029; i++) { // the sum of the weights
		world_flow(w);
		w->now_ns += MS;
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_in_range(w->backends[i].active, weights[i] * 200.99, weights[i] * 201.01);
	}
	world_free(w);
	// Loads that grow after the table was loaded.
	w = world_create(3);
	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 3; i++) {
		w->backends[i].active = weights[i] * 200;
		world_start(w, (uint16_t)i);
	}
	w->now_ns += SECOND;
	world_choose(w); // the tick makes the keys coarser
	for (uint32_t i = 0; i < 141029; i++) {
		world_flow(w);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_in_range(w->backends[i].active, weights[i] * 200.99, weights[i] * 201.01);
	}
	world_free(w);
}

// Fair-share keeps predicted ends where least-loaded keeps factors.
TEST(weights_survive_changes_of_the_policy) {
	static const uint32_t weights[] = {100, 300};
	struct world *w = world_create(2);

	w->now_ns = HOUR;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t given[2] = {0};

		world_publish(w, WEIR_POLICY_FAIR_SHARE, NULL, weights, 2);
		for (uint32_t k = 0; k < 400; k++) {
			given[world_choose(w)]++;
			w->now_ns += 10 * MS;
		}
		assert_in_range(given[0], 190, 210);
		world_publish(w, LL, NULL, weights, 2);
		for (uint32_t k = 0; k < 400; k++) {
			world_flow(w);
		}
		assert_int_equal(w->backends[0].active, 100 * (i + 1));
		assert_int_equal(w->backends[1].active, 300 * (i + 1));
	}
	world_free(w);
}
