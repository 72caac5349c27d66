// SPDX-License-Identifier: BSD-3-Clause
//
// Random: equal shares, a different sequence for each worker, the limit.
#include "policy_lab.h"

#define RANDOM WEIR_POLICY_RANDOM

TEST(all_have_equal_shares) {
	struct world *w = world_create(100);
	uint32_t counts[100] = {0};
	double chi_squared = 0;

	world_publish(w, RANDOM, NULL, NULL, 100);
	for (uint32_t i = 0; i < 100000; i++) {
		counts[world_choose(w)]++;
	}
	for (uint32_t i = 0; i < 100; i++) {
		chi_squared += (counts[i] - 1000.0) * (counts[i] - 1000.0) / 1000.0;
	}
	// With 99 degrees of freedom, chi squared is outside of this range with 0.2 % probability.
	assert_true(chi_squared > 55 && chi_squared < 155);
	world_free(w);
}

TEST(workers_have_different_sequences) {
	struct world *w[2];
	uint32_t same[3] = {0};
	uint16_t before = 0;

	for (uint32_t rank = 0; rank < 2; rank++) {
		w[rank] = world_create(100);
		w[rank]->worker.rank = rank;
		w[rank]->worker.ranks = 2;
		world_publish(w[rank], RANDOM, NULL, NULL, 100);
	}
	// The sequences differ, even if one of them is shifted by one step.
	for (uint32_t i = 0; i < 10000; i++) {
		uint16_t first = world_choose(w[0]);
		uint16_t second = world_choose(w[1]);

		same[0] += first == second;
		same[1] += second == before;
		before = first;
	}
	assert_in_range(same[0], 50, 150);
	assert_in_range(same[1], 50, 150);
	world_free(w[0]);
	world_free(w[1]);
}

TEST(full_backends_are_not_chosen) {
	struct world *w = world_create(50);

	w->table.settings.max_active_flows = 1;
	world_publish(w, RANDOM, NULL, NULL, 50);
	// The last backends below the limit are found, although random draws rarely find them.
	for (uint32_t i = 0; i < 50; i++) {
		assert_int_equal(w->backends[world_flow(w)].active, 1);
	}
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_SPILLED);
	world_free(w);
}

// If many backends are full, flows go to random backends among the other backends, and not to the
// least loaded backend.
TEST(the_others_keep_equal_shares) {
	struct world *w = world_create(50);
	uint32_t counts[50] = {0};

	w->table.settings.max_active_flows = 10;
	for (uint32_t i = 0; i < 50; i++) {
		w->backends[i].active = i < 25 ? 10 : i % 10;
	}
	world_publish(w, RANDOM, NULL, NULL, 50);
	for (uint32_t i = 0; i < 25000; i++) {
		counts[world_choose(w)]++;
	}
	for (uint32_t i = 0; i < 50; i++) {
		assert_in_range(counts[i], i < 25 ? 0 : 850, i < 25 ? 0 : 1150);
	}
	world_free(w);
}
