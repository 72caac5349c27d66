// SPDX-License-Identifier: BSD-3-Clause
//
// Power of two choices: choice of the less loaded of two different candidates, errors, the limit.
#include "backend_signal.h"
#include "policy_lab.h"

#define P2C WEIR_POLICY_POWER_OF_TWO

TEST(the_most_loaded_is_never_chosen) {
	struct world *w = world_create(5);
	uint32_t counts[5] = {0};

	world_publish(w, P2C, NULL, NULL, 5);
	for (uint32_t i = 0; i < 5; i++) {
		for (uint32_t j = 0; j < i; j++) {
			world_start(w, (uint16_t)i);
		}
	}
	// There are 20 ordered pairs of different candidates. Candidate 0 is the less loaded one in
	// 8 pairs, 1 in 6 pairs, 2 in 4 pairs, 3 in 2 pairs, and 4 in no pair.
	for (uint32_t i = 0; i < 20000; i++) {
		counts[world_choose(w)]++;
	}
	for (uint32_t i = 0; i < 5; i++) {
		assert_in_range(counts[i], (8 - 2 * i) * 950, (8 - 2 * i) * 1050);
	}
	world_free(w);
}

TEST(loads_stay_close) {
	struct world *w = world_create(100);
	uint32_t most = 0;

	world_publish(w, P2C, NULL, NULL, 100);
	for (uint32_t i = 0; i < 10000; i++) {
		uint32_t active = w->backends[world_flow(w)].active;

		most = active > most ? active : most;
	}
	assert_in_range(most, 101, 105); // random choices would give about 130
	world_free(w);
}

TEST(reported_errors_count_as_load) {
	struct world *w = world_create(2);

	world_publish(w, P2C, NULL, NULL, 2);
	w->costs[1] = weir_signal_of_errors(1);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(world_choose(w), 0);
	}
	w->costs[1] = 0;
	world_start(w, 0);
	assert_int_equal(world_choose(w), 1);
	world_free(w);
}

// A worker cannot count the flows of other workers. After a report that includes these flows, they
// count as load from the worker's next choice on.
TEST(shares_of_reported_requests_count_as_load) {
	struct weir_signal_share share = {.flows = 3, .gain = 1};
	struct world *w = world_create(2);

	world_publish(w, P2C, NULL, NULL, 2);
	world_start(w, 0);
	assert_int_equal(world_choose(w), 1);
	w->costs[1] = weir_signal_of_share(&share, w->costs[1]);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(world_flow(w), 0);
	}
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_flow(w), 0);
	world_start(w, 0);
	assert_int_equal(world_flow(w), 1);
	world_free(w);
}

TEST(errors_count_as_load_for_a_while) {
	struct world *w = world_create(2);
	uint32_t bad = 0;

	world_publish(w, P2C, NULL, NULL, 2);
	world_start(w, 0);
	world_end(w, 0, WEIR_OUTCOME_REFUSED);
	for (uint32_t i = 0; i < 100; i++) {
		assert_int_equal(world_choose(w), 1);
	}
	w->now_ns += SECOND;
	for (uint32_t i = 0; i < 100; i++) {
		bad += world_choose(w) == 0;
	}
	assert_in_range(bad, 25, 75);
	world_free(w);
}

TEST(single_backend_is_always_chosen) {
	struct world *w = world_create(1);

	world_publish(w, P2C, NULL, NULL, 1);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(world_flow(w), 0);
	}
	world_free(w);
}

TEST(full_backends_are_not_chosen) {
	struct world *w = world_create(50);

	w->table.settings.max_active_flows = 1;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	world_publish(w, P2C, NULL, NULL, 50);
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(w->backends[world_flow(w)].active, 1);
	}
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_free(w);
}
