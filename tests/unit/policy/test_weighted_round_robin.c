// SPDX-License-Identifier: BSD-3-Clause
//
// Weighted round robin: recorded schedules of static stride schedulers, exact shares, several
// workers, and invalid tables.
#include "policy_lab.h"

#define WRR WEIR_POLICY_WEIGHTED_ROUND_ROBIN
#define STRIDES 65535u

static struct world *create(const uint32_t *weights, uint32_t n, uint32_t rank, uint32_t ranks) {
	struct world *w = world_create(n);

	w->worker.rank = rank;
	w->worker.ranks = ranks;
	world_publish(w, WRR, NULL, weights, n);
	return w;
}

TEST(recorded_schedules) {
	struct world *w;

	w = create((const uint32_t[]){1, 1, 1}, 3, 0, 1);
	WORLD_EXPECT(w, 0, 1, 2, 0, 1, 2, 0, 1, 2);
	world_free(w);
	w = create((const uint32_t[]){5, 1, 1}, 3, 0, 1);
	WORLD_EXPECT(w, 0, 2, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1, 0, 0, 0, 2, 0);
	world_free(w);
	w = create((const uint32_t[]){3, 2, 1}, 3, 0, 1);
	WORLD_EXPECT(w, 0, 1, 2, 0, 0, 1, 0, 1, 2, 0, 0, 1, 0, 1, 2, 0, 0, 1, 0, 1, 2, 0, 0, 1);
	world_free(w);
	w = create((const uint32_t[]){100, 200, 300}, 3, 0, 1);
	WORLD_EXPECT(w, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0, 1, 2, 1, 2, 2, 0, 1, 2);
	world_free(w);
}

static void count(struct world *w, uint32_t flows, uint32_t *counts) {
	for (uint32_t i = 0; i < flows; i++) {
		counts[world_flow(w)]++;
	}
}

TEST(recorded_counts) {
	uint32_t first[3] = {0};
	uint32_t second[3] = {0};
	uint32_t third[4] = {0};
	struct world *w;

	w = create((const uint32_t[]){1, 2, 3}, 3, 0, 1);
	count(w, 60000, first);
	assert_memory_equal(first, ((const uint32_t[]){10000, 20000, 30000}), sizeof(first));
	world_free(w);
	w = create((const uint32_t[]){5, 8, 10}, 3, 0, 1);
	count(w, 60000, second);
	assert_memory_equal(second, ((const uint32_t[]){13043, 20870, 26087}), sizeof(second));
	world_free(w);
	w = create((const uint32_t[]){300, 100, 200, 400}, 4, 0, 1);
	count(w, 60000, third);
	assert_memory_equal(third, ((const uint32_t[]){17999, 6000, 12001, 24000}), sizeof(third));
	world_free(w);
}

// In 65,535 generations every candidate has exactly as many turns as its stride.
TEST(exact_over_a_period) {
	static const uint32_t weights[] = {7, 13, 1, 65535, 1000, 333};
	struct world *w = create(weights, 6, 0, 1);
	uint32_t counts[6] = {0};
	uint32_t total = 0;

	for (uint32_t i = 0; i < 6; i++) {
		assert_true(w->candidates[i].stride > 0);
		total += w->candidates[i].stride;
	}
	for (uint32_t period = 1; period <= 2; period++) {
		count(w, total, counts);
		for (uint32_t i = 0; i < 6; i++) {
			assert_int_equal(counts[i], period * w->candidates[i].stride);
		}
		assert_true(w->client->generation < STRIDES);
	}
	world_free(w);
}

// Returns the largest difference between the number of flows of a backend and the ideal number. The
// workers get flows in turn. spread: the workers start at different positions of the schedule.
static double distance(uint32_t n, uint32_t ranks, uint32_t flows, bool spread) {
	uint32_t *weights = calloc(n, sizeof(weights[0]));
	uint32_t *counts = calloc(n, sizeof(counts[0]));
	double total = 0;
	double most = 0;

	assert_non_null(weights);
	assert_non_null(counts);
	for (uint32_t i = 0; i < n; i++) {
		weights[i] = 50 + i * 37 % 100;
		total += weights[i];
	}
	for (uint32_t rank = 0; rank < ranks; rank++) {
		struct world *w = create(weights, n, spread ? rank : 0, spread ? ranks : 1);

		count(w, flows / ranks, counts);
		world_free(w);
	}
	for (uint32_t i = 0; i < n; i++) {
		double ideal = flows * weights[i] / total;
		double off = counts[i] > ideal ? counts[i] - ideal : ideal - counts[i];

		most = off > most ? off : most;
	}
	free(counts);
	free(weights);
	return most;
}

TEST(sum_over_workers_is_as_even_as_one) {
	double one = 0;
	double four = 0;
	double in_step = 0;

	for (uint32_t flows = 400; flows < 4000; flows += 100) {
		double this_one = distance(20, 1, flows, true);
		double these_four = distance(20, 4, flows, true);

		assert_true(this_one <= 1.5);
		assert_true(these_four <= this_one + 1.25); // at most about one flow more
		one += this_one;
		four += these_four;
		in_step += distance(20, 4, flows, false);
	}
	assert_true(four < 1.6 * one);
	assert_true(in_step > 2.5 * one);
}

TEST(workers_are_not_in_lockstep) {
	struct world *w[4];
	uint32_t same = 0;
	uint32_t weights[20];

	for (uint32_t i = 0; i < 20; i++) {
		weights[i] = 50 + i * 37 % 100;
	}
	for (uint32_t rank = 0; rank < 4; rank++) {
		w[rank] = create(weights, 20, rank, 4);
	}
	for (uint32_t i = 0; i < 1000; i++) {
		uint16_t first = world_choose(w[0]);

		for (uint32_t rank = 1; rank < 4; rank++) {
			same += world_choose(w[rank]) == first;
		}
	}
	assert_true(same < 3 * 1000 / 10); // independent workers would agree on 1 in 20 choices
	for (uint32_t rank = 0; rank < 4; rank++) {
		world_free(w[rank]);
	}
}

TEST(schedule_continues_in_the_next_table) {
	static const uint32_t weights[] = {5, 1, 1};
	static const uint16_t expected[] = {0, 2, 0, 0, 1, 0, 0, 0, 2, 0, 0, 1};
	struct world *w = create(weights, 3, 0, 1);

	for (uint32_t i = 0; i < 12; i++) {
		world_publish(w, WRR, NULL, weights, 3);
		assert_int_equal(world_choose(w), expected[i]);
	}
	// New weights do not restart the schedule at the first candidate. Otherwise this candidate
	// would get more flows with every change.
	world_publish(w, WRR, NULL, (const uint32_t[]){1, 1, 1}, 3);
	assert_int_not_equal(w->client->generation, 0);
	world_free(w);
}

TEST(full_backend_is_skipped) {
	struct world *w = world_create(3);
	uint32_t counts[3] = {0};

	w->table.settings.max_active_flows = 3;
	world_publish(w, WRR, NULL, (const uint32_t[]){100, 1, 1}, 3);
	count(w, 9, counts);
	assert_int_equal(counts[0], 3);
	assert_int_equal(counts[1], 3);
	assert_int_equal(counts[2], 3);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_SPILLED);
	world_free(w);
}

// There are far more candidates than a choice may visit, and in most generations almost no
// candidate has a turn.
TEST(one_heavy_among_many_light) {
	uint32_t n = 1000;
	uint32_t *weights = calloc(n, sizeof(weights[0]));
	uint32_t *counts = calloc(n, sizeof(counts[0]));
	struct world *w;

	assert_non_null(weights);
	assert_non_null(counts);
	for (uint32_t i = 0; i < n; i++) {
		weights[i] = i == 700 ? 65535 : 1;
	}
	w = create(weights, n, 0, 1);
	count(w, 600000, counts);
	assert_in_range(counts[700], 585000, 599000); // 98.5 % by weight: 591,000 flows
	// The last chosen backend is removed, and must not be chosen again.
	for (uint32_t i = 0; i < 10 || w->client->last_id != 700; i++) {
		world_choose(w);
	}
	weights[3] = 65535;
	world_publish(w, WRR, NULL, weights, 700);
	for (uint32_t i = 0; i < 10000; i++) {
		assert_true(world_choose(w) < 700);
	}
	world_free(w);
	free(counts);
	free(weights);
}

TEST(ten_thousand_have_their_share) {
	struct world *w = create(NULL, 10000, 0, 1);
	uint32_t *counts = calloc(10000, sizeof(counts[0]));

	assert_non_null(counts);
	count(w, 30000, counts);
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(counts[i], 3);
	}
	free(counts);
	world_free(w);
}

TEST(hostile_strides_and_ids) {
	struct world *w = create(NULL, 4, 0, 1);

	for (uint32_t i = 0; i < 4; i++) {
		w->candidates[i].stride = 0;
	}
	for (uint32_t i = 0; i < 100; i++) {
		assert_true(world_choose(w) < 4);
	}
	w->candidates[0].id = 4;
	w->candidates[1].id = 65535;
	w->candidates[1].stride = STRIDES;
	for (uint32_t i = 0; i < 100; i++) {
		assert_in_range(world_choose(w), 2, 3);
	}
	world_free(w);
}
