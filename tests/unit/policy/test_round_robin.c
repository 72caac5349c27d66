// SPDX-License-Identifier: BSD-3-Clause
//
// Round robin: the order of choices, the start position of each worker, the limit of active flows,
// and changes of the table.
#include "policy_lab.h"

#define RR WEIR_POLICY_ROUND_ROBIN

TEST(choices_are_cyclic) {
	struct world *w = world_create(4);

	world_publish(w, RR, NULL, NULL, 4);
	WORLD_EXPECT(w, 0, 1, 2, 3, 0, 1, 2, 3, 0);
	world_free(w);
}

TEST(single_backend_is_always_chosen) {
	struct world *w = world_create(1);

	world_publish(w, RR, NULL, NULL, 1);
	WORLD_EXPECT(w, 0, 0, 0);
	world_free(w);
}

TEST(ten_thousand_have_a_turn_each) {
	struct world *w = world_create(10000);

	world_publish(w, RR, NULL, NULL, 10000);
	for (uint32_t i = 0; i < 30000; i++) {
		assert_int_equal(world_choose(w), i % 10000);
	}
	world_free(w);
}

TEST(four_servers_are_exact_to_one_flow) {
	struct world *w = world_create(4);
	uint32_t counts[4] = {0};

	world_publish(w, RR, NULL, NULL, 4);
	for (uint32_t i = 1; i <= 1001; i++) {
		counts[world_flow(w)]++;
		for (uint32_t id = 0; id < 4; id++) {
			assert_true(counts[id] == i / 4 || counts[id] == i / 4 + 1);
		}
	}
	world_free(w);
}

TEST(full_backend_is_skipped) {
	struct world *w = world_create(3);

	w->table.settings.max_active_flows = 2;
	world_publish(w, RR, NULL, NULL, 3);
	world_start(w, 1);
	world_start(w, 1);
	WORLD_EXPECT(w, 0, 2, 0, 2);
	world_end(w, 1, WEIR_OUTCOME_COMPLETED);
	WORLD_EXPECT(w, 0, 1, 2);
	world_free(w);
}

TEST(cursor_follows_its_backend) {
	struct world *w = world_create(8);

	world_publish(w, RR, (const uint16_t[]){1, 2, 3, 4}, NULL, 4);
	WORLD_EXPECT(w, 1, 2);
	// Backends were added before the cursor: 3 is still the next backend.
	world_publish(w, RR, (const uint16_t[]){5, 1, 6, 2, 3, 4}, NULL, 6);
	WORLD_EXPECT(w, 3, 4, 5, 1, 6);
	// Backend 2 would be next but was removed: the backend after it is next.
	world_publish(w, RR, (const uint16_t[]){5, 1, 6, 3, 4}, NULL, 5);
	WORLD_EXPECT(w, 3, 4);
	// The cursor was behind the last backend.
	world_publish(w, RR, (const uint16_t[]){7}, NULL, 1);
	WORLD_EXPECT(w, 7, 7);
	// The table has no candidate for a while.
	world_publish(w, RR, (const uint16_t[]){2, 7}, NULL, 2);
	WORLD_EXPECT(w, 7, 2);
	world_publish(w, RR, NULL, NULL, 0);
	assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_NONE);
	world_publish(w, RR, (const uint16_t[]){2, 7}, NULL, 2);
	WORLD_EXPECT(w, 7, 2);
	world_free(w);
}

TEST(garbage_ids_are_skipped) {
	struct world *w = world_create(4);

	world_publish(w, RR, (const uint16_t[]){9, 1, 65535, 3}, NULL, 4);
	WORLD_EXPECT(w, 1, 3, 1, 3);
	world_publish(w, RR, (const uint16_t[]){4, 5, 6}, NULL, 3);
	assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_NONE);
	world_free(w);
}

// Returns the difference between the largest and the smallest number of flows of a backend when
// `flows` flows are distributed to `ranks` workers in turn.
static uint32_t spread(uint32_t backends, uint32_t ranks, uint32_t flows, uint16_t *first) {
	uint32_t *counts = calloc(backends, sizeof(counts[0]));
	uint32_t min = UINT32_MAX;
	uint32_t max = 0;

	assert_non_null(counts);
	for (uint32_t rank = 0; rank < ranks; rank++) {
		struct world *w = world_create(backends);

		w->worker.rank = rank;
		w->worker.ranks = ranks;
		world_publish(w, RR, NULL, NULL, backends);
		for (uint32_t i = rank; i < flows; i += ranks) {
			uint16_t id = world_flow(w);

			first[rank] = i == rank ? id : first[rank];
			counts[id]++;
		}
		world_free(w);
	}
	for (uint32_t i = 0; i < backends; i++) {
		min = counts[i] < min ? counts[i] : min;
		max = counts[i] > max ? counts[i] : max;
	}
	free(counts);
	return max - min;
}

TEST(sum_over_workers_is_as_even_as_one) {
	uint16_t first[4];

	for (uint32_t flows = 40; flows < 840; flows += 4) {
		uint32_t one = spread(40, 1, flows, first);

		assert_true(one <= 1);
		assert_true(spread(40, 4, flows, first) <= 1);
	}
	for (uint32_t rank = 0; rank < 4; rank++) {
		assert_int_equal(first[rank], rank * 10);
	}
}

// The first table of a service often has one backend, and later tables have more, because health
// checks take some time.
TEST(workers_spread_again_when_candidates_are_added) {
	uint32_t sum = 0;

	for (uint32_t rank = 0; rank < 4; rank++) {
		struct world *w = world_create(40);

		w->worker.rank = rank;
		w->worker.ranks = 4;
		world_publish(w, RR, NULL, NULL, 1);
		WORLD_EXPECT(w, 0, 0);
		world_publish(w, RR, NULL, NULL, 40);
		sum += world_choose(w);
		world_free(w);
	}
	assert_int_equal(sum, 0 + 10 + 20 + 30);
}
