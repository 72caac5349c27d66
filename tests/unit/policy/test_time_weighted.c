// SPDX-License-Identifier: BSD-3-Clause
//
// Time-weighted round robin: recorded schedules, unknown costs, changes of the table.
#include "policy_lab.h"

#define TW WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN

static struct world *create(const uint32_t *weights, const uint64_t *costs_ms, uint32_t n) {
	struct world *w = world_create(n);

	for (uint32_t i = 0; i < n; i++) {
		w->costs[i] = costs_ms[i] * MS;
	}
	world_publish(w, TW, NULL, weights, n);
	return w;
}

TEST(recorded_schedules) {
	static const uint32_t weights[] = {100, 200, 300};
	static const uint32_t equal[] = {100, 100, 100};
	struct world *w;

	w = create(weights, (const uint64_t[]){50, 50, 50}, 3);
	WORLD_EXPECT(w, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 2, 2);
	world_free(w);
	w = create(weights, (const uint64_t[]){100, 100, 100}, 3);
	WORLD_EXPECT(w, 0, 1, 1, 2, 2, 2, 0, 1, 1, 2, 2, 2);
	world_free(w);
	w = create(weights, (const uint64_t[]){70, 70, 70}, 3);
	WORLD_EXPECT(w, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2, 0, 0, 1, 1, 1, 2, 2, 2, 2, 2);
	world_free(w);
	w = create(equal, (const uint64_t[]){10, 20, 50}, 3);
	WORLD_EXPECT(w, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 2, 2, 0, 0, 0);
	world_free(w);
}

// If unknown costs were guessed, one backend could get the first hundred flows in succession.
TEST(cold_start_gives_all_a_turn) {
	struct world *w = create((const uint32_t[]){100, 200, 300}, (const uint64_t[]){0, 0, 0}, 3);

	WORLD_EXPECT(w, 0, 0, 1, 1, 2, 2, 0, 0, 1, 1);
	for (uint32_t i = 0; i < 3; i++) { // the first samples of service times
		w->costs[i] = 50 * MS;
	}
	WORLD_EXPECT(w, 2, 2, 2, 2, 2, 2, 0, 0, 1, 1, 1, 1, 2);
	world_free(w);
}

// Choosing a backend for a flow uses a part of the backend's turn at once. It does not matter
// whether the flow ends after the turn, or is dropped before it starts.
TEST(a_burst_is_charged_when_it_is_chosen) {
	struct world *w = create((const uint32_t[]){100, 100}, (const uint64_t[]){40, 40}, 2);

	WORLD_EXPECT(w, 0, 0, 0);
	assert_int_equal(world_flow(w), 1);
	WORLD_EXPECT(w, 1);
	world_end(w, 1, WEIR_OUTCOME_COMPLETED);
	WORLD_EXPECT(w, 1, 0);
	world_free(w);
}

TEST(single_backend_is_always_chosen) {
	struct world *w = create((const uint32_t[]){1}, (const uint64_t[]){500}, 1);

	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(world_choose(w), 0);
		assert_int_equal(w->client->spent_ns, 500 * MS); // one turn for each backend
	}
	world_free(w);
}

TEST(turn_continues_in_the_next_table) {
	struct world *w = world_create(5);

	for (uint32_t i = 0; i < 5; i++) {
		w->costs[i] = 50 * MS;
	}
	world_publish(w, TW, (const uint16_t[]){1, 2, 3}, NULL, 3);
	WORLD_EXPECT(w, 1, 1, 2);
	world_publish(w, TW, (const uint16_t[]){0, 1, 2, 3}, NULL, 4);
	WORLD_EXPECT(w, 2, 3);
	// A backend is removed after half of its turn. The next backend gets a full turn.
	world_publish(w, TW, (const uint16_t[]){0, 1, 2, 4}, NULL, 4);
	WORLD_EXPECT(w, 4, 4, 0, 0);
	world_free(w);
}

TEST(full_backend_loses_its_turn) {
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->costs[i] = 25 * MS;
	}
	w->table.settings.max_active_flows = 2;
	world_publish(w, TW, NULL, NULL, 3);
	assert_int_equal(world_flow(w), 0);
	assert_int_equal(world_flow(w), 0);
	assert_int_equal(world_flow(w), 1);
	assert_int_equal(world_flow(w), 1);
	WORLD_EXPECT(w, 2, 2, 2, 2, 2, 2); // no other backend is below its limit
	world_free(w);
}

TEST(hostile_costs_and_weights) {
	struct world *w =
		create((const uint32_t[]){0, UINT32_MAX, 0, 1}, (const uint64_t[]){1, 1, 1, 1}, 4);

	for (uint32_t i = 0; i < 4; i++) {
		w->costs[i] = UINT64_MAX >> 2; // the largest valid cost
	}
	WORLD_EXPECT(w, 1, 1);
	for (uint32_t i = 0; i < 100000; i++) {
		uint16_t id = world_choose(w);

		assert_true(id == 1 || id == 3);
	}
	world_free(w);
	// No candidate has enough weight for a turn.
	w = create((const uint32_t[]){0, 0}, (const uint64_t[]){1, 1}, 2);
	assert_true(world_choose(w) < 2);
	world_free(w);
}
