// SPDX-License-Identifier: BSD-3-Clause
//
// Interleaved weighted round robin: rounds, recorded schedules, changes of weights, and invalid
// rounds.
#include "policy_lab.h"

#define IWRR WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN

static struct world *create(
	const uint32_t *weights, const uint64_t *costs_ms, uint32_t n, enum weir_rounds rounds) {
	struct world *w = world_create(n);

	for (uint32_t i = 0; i < n; i++) {
		w->costs[i] = costs_ms[i] * MS;
	}
	w->table.settings.rounds = (uint8_t)rounds;
	world_publish(w, IWRR, NULL, weights, n);
	return w;
}

TEST(rounds_are_distinct_weights) {
	struct weir_candidate candidates[] = {{.weight = 5}, {.weight = 5}, {.weight = 7},
		{.weight = 9}, {.weight = 9}, {.weight = 9}};
	struct weir_candidate unsorted[] = {
		{.weight = 9}, {.weight = 3}, {.weight = 9}, {.weight = 4}};
	struct weir_round rounds[6];

	assert_int_equal(weir_interleaved_rounds(candidates, 6, rounds), 3);
	assert_int_equal(rounds[0].weight, 5);
	assert_int_equal(rounds[0].first, 0);
	assert_int_equal(rounds[1].weight, 7);
	assert_int_equal(rounds[1].first, 2);
	assert_int_equal(rounds[2].weight, 9);
	assert_int_equal(rounds[2].first, 3);
	assert_int_equal(weir_interleaved_rounds(unsorted, 4, rounds), 3);
	assert_int_equal(rounds[0].weight, 3);
	assert_int_equal(rounds[0].first, 0);
	assert_int_equal(rounds[2].weight, 9);
	assert_int_equal(rounds[2].first, 0);
	assert_int_equal(weir_interleaved_rounds(candidates, 0, rounds), 0);
}

TEST(recorded_incremental_rounds) {
	static const uint32_t weights[] = {100, 200, 300};
	struct world *w;

	w = create(weights, (const uint64_t[]){50, 50, 50}, 3, WEIR_ROUNDS_INCREMENTAL);
	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 0);
	world_free(w);
	w = create(weights, (const uint64_t[]){100, 100, 100}, 3, WEIR_ROUNDS_INCREMENTAL);
	WORLD_EXPECT(w, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2);
	world_free(w);
	w = create(weights, (const uint64_t[]){70, 70, 70}, 3, WEIR_ROUNDS_INCREMENTAL);
	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2);
	world_free(w);
}

TEST(recorded_documented_rounds) {
	static const uint32_t weights[] = {100, 200, 300};
	struct world *w;

	w = create(weights, (const uint64_t[]){50, 50, 50}, 3, WEIR_ROUNDS_DOCUMENTED);
	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 2);
	world_free(w);
	w = create(weights, (const uint64_t[]){100, 100, 100}, 3, WEIR_ROUNDS_DOCUMENTED);
	WORLD_EXPECT(w, 0, 1, 2, 1, 1, 2, 2, 2, 2, 2, 0, 1, 2, 1, 1, 2, 2, 2, 2, 2);
	world_free(w);
	w = create(weights, (const uint64_t[]){70, 70, 70}, 3, WEIR_ROUNDS_DOCUMENTED);
	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 1, 1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 2, 2);
	world_free(w);
	w = create((const uint32_t[]){100, 100, 100}, (const uint64_t[]){10, 20, 50}, 3,
		WEIR_ROUNDS_DOCUMENTED);
	WORLD_EXPECT(w, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0);
	world_free(w);
}

// With WEIR_ROUNDS_TASKS, a turn is one flow, whatever its service time. More cases are in
// tests/vectors/poolifier_interleaved_tasks.json.
TEST(rounds_of_tasks_ignore_service_times) {
	static const uint32_t weights[] = {100, 200, 300};
	struct world *w;

	w = create(weights, (const uint64_t[]){50, 900, 1}, 3, WEIR_ROUNDS_TASKS);
	WORLD_EXPECT(w, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0);
	world_free(w);
	// unknown service times
	w = create(weights, (const uint64_t[]){0, 0, 0}, 3, WEIR_ROUNDS_TASKS);
	WORLD_EXPECT(w, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0);
	world_free(w);
	w = create((const uint32_t[]){5, 5, 5000}, (const uint64_t[]){1, 1, 1}, 3,
		WEIR_ROUNDS_TASKS); // only the order of weights counts
	WORLD_EXPECT(w, 0, 1, 2, 2, 0, 1, 2, 2, 0);
	world_free(w);
}

TEST(rounds_of_tasks_survive_changes_of_weights) {
	struct world *w = create((const uint32_t[]){100, 200, 300}, (const uint64_t[]){9, 9, 9}, 3,
		WEIR_ROUNDS_TASKS);

	WORLD_EXPECT(w, 0, 1, 2, 1);
	world_publish(w, IWRR, NULL, (const uint32_t[]){100, 210, 400}, 3);
	WORLD_EXPECT(w, 2, 2, 0, 1, 2, 1, 2, 2);
	world_free(w);
}

TEST(order_of_candidates_does_not_matter) {
	struct world *w = create((const uint32_t[]){300, 100, 200},
		(const uint64_t[]){100, 100, 100}, 3, WEIR_ROUNDS_INCREMENTAL);

	WORLD_EXPECT(w, 0, 1, 2, 0, 2, 0, 0, 1, 2, 0, 2, 0);
	world_free(w);
}

TEST(single_backend_is_always_chosen) {
	struct world *w =
		create((const uint32_t[]){3}, (const uint64_t[]){2}, 1, WEIR_ROUNDS_INCREMENTAL);

	WORLD_EXPECT(w, 0, 0, 0, 0, 0);
	world_free(w);
}

TEST(same_weights_continue_the_schedule) {
	static const uint32_t weights[] = {100, 200, 300};
	static const uint16_t expected[] = {0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2};
	struct world *w =
		create(weights, (const uint64_t[]){100, 100, 100}, 3, WEIR_ROUNDS_INCREMENTAL);

	for (uint32_t i = 0; i < 12; i++) {
		world_publish(w, IWRR, NULL, weights, 3);
		assert_int_equal(world_choose(w), expected[i]);
	}
	world_free(w);
}

TEST(other_weights_continue_in_the_nearest_round) {
	struct world *w = create((const uint32_t[]){100, 200, 300},
		(const uint64_t[]){100, 100, 100}, 3, WEIR_ROUNDS_INCREMENTAL);

	WORLD_EXPECT(w, 0, 1, 2, 1, 2);
	// The round of weight 200 is over. The round of weight 400 follows.
	world_publish(w, IWRR, NULL, (const uint32_t[]){100, 200, 400}, 3);
	WORLD_EXPECT(w, 2, 2, 0, 1, 2, 1, 2, 2);
	// In the round of weight 400, backend 2 has used half of the quota of 200. The round
	// continues as the round of weight 500 with a quota of 300, so 200 are left.
	world_publish(w, IWRR, NULL, (const uint32_t[]){100, 200, 500}, 3);
	WORLD_EXPECT(w, 2, 2, 0, 1, 2, 1);
	// The round of weight 200 continues as the round of weight 240. Its quota rises to 140.
	world_publish(w, IWRR, NULL, (const uint32_t[]){100, 240, 500}, 3);
	WORLD_EXPECT(w, 1, 2, 2, 2, 2, 2, 0);
	world_free(w);
}

// The schedule has 130 flows, and the weights change every 30 flows.
TEST(shares_survive_frequent_changes_of_weights) {
	struct world *w = create((const uint32_t[]){100, 200, 1000}, (const uint64_t[]){10, 10, 10},
		3, WEIR_ROUNDS_INCREMENTAL);
	uint32_t counts[3] = {0};

	for (uint32_t i = 0; i < 13000; i++) {
		if (i % 30 == 0) {
			world_publish(
				w, IWRR, NULL, (const uint32_t[]){100, 200, 1000 + i / 30 % 2}, 3);
		}
		counts[world_choose(w)]++;
	}
	assert_in_range(counts[0], 950, 1050);
	assert_in_range(counts[1], 1900, 2100);
	assert_in_range(counts[2], 9850, 10150);
	world_free(w);
}

TEST(removed_backend_ends_its_turn) {
	static const uint32_t weights[] = {100, 100, 100};
	struct world *w = world_create(4);

	for (uint32_t i = 0; i < 4; i++) {
		w->costs[i] = 50 * MS;
	}
	world_publish(w, IWRR, (const uint16_t[]){0, 1, 2}, weights, 3);
	WORLD_EXPECT(w, 0, 0, 1);
	world_publish(w, IWRR, (const uint16_t[]){0, 2, 3}, weights, 3);
	WORLD_EXPECT(w, 2, 2, 3, 3, 0, 0);
	world_free(w);
}

TEST(full_backend_loses_its_turn) {
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->costs[i] = 100 * MS;
	}
	w->table.settings.max_active_flows = 1;
	world_publish(w, IWRR, NULL, (const uint32_t[]){100, 200, 300}, 3);
	world_start(w, 1);
	WORLD_EXPECT(w, 0, 2, 2, 2, 0, 2, 2, 2);
	world_free(w);
}

TEST(hostile_rounds) {
	struct world *w = create((const uint32_t[]){100, 200, 300, 400},
		(const uint64_t[]){100, 100, 100, 100}, 4, WEIR_ROUNDS_INCREMENTAL);
	uint64_t seed = 5;

	for (uint32_t i = 0; i < 100000; i++) {
		struct weir_round *round = &w->rounds[fixture_random(&seed) % 4];

		round->first = (uint32_t)fixture_random(&seed);
		round->weight = (uint32_t)fixture_random(&seed) >> fixture_random(&seed) % 32;
		assert_true(world_choose(w) < 4);
	}
	// The table has fewer rounds now, but the client has not loaded the new table yet.
	w->client->round = 3;
	free(w->rounds);
	w->rounds = calloc(1, sizeof(w->rounds[0]));
	w->table.rounds = w->rounds;
	w->table.round_count = 1;
	assert_true(world_choose(w) < 4);
	w->table.round_count = 0;
	assert_true(world_choose(w) < 4);
	world_free(w);
}

TEST(ten_thousand_have_their_share) {
	uint32_t *weights = calloc(10000, sizeof(weights[0]));
	uint32_t *counts = calloc(10000, sizeof(counts[0]));
	struct world *w = world_create(10000);

	assert_non_null(weights);
	assert_non_null(counts);
	for (uint32_t i = 0; i < 10000; i++) {
		weights[i] = 1 + i / 2500;
		w->costs[i] = MS;
	}
	world_publish(w, IWRR, NULL, weights, 10000);
	for (uint32_t i = 0; i < 25000; i++) {
		counts[world_choose(w)]++;
	}
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(counts[i], weights[i]);
	}
	world_free(w);
	free(counts);
	free(weights);
}

// Until service times are known, a turn is two flows, and all backends have equally many turns.
// Only the first round is used, because only this round includes all candidates.
TEST(cold_start_gives_all_a_turn) {
	struct world *w = create((const uint32_t[]){100, 200, 300}, (const uint64_t[]){0, 0, 0}, 3,
		WEIR_ROUNDS_INCREMENTAL);

	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 0, 0);
	for (uint32_t i = 0; i < 3; i++) { // the first samples of service times
		w->costs[i] = 50 * MS;
	}
	WORLD_EXPECT(w, 1, 1, 2, 2, 1, 1, 2, 2, 2, 2, 0, 0, 1);
	world_free(w);
}
