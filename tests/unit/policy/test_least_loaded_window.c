// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: more candidates than fit into one window.
#include "policy_lab.h"

#define LL WEIR_POLICY_LEAST_LOADED

TEST(every_one_of_many_has_a_turn) {
	struct world *w = world_create(10000);
	uint32_t *counts = calloc(10000, sizeof(counts[0]));

	assert_non_null(counts);
	world_publish(w, LL, NULL, NULL, 10000);
	for (uint32_t i = 0; i < 30000; i++) {
		counts[world_flow(w)]++;
	}
	for (uint32_t i = 0; i < 10000; i++) {
		assert_int_equal(counts[i], 3);
	}
	free(counts);
	world_free(w);
}

TEST(loaded_backends_among_many_are_avoided) {
	struct world *w = world_create(1000);

	for (uint32_t i = 0; i < 1000; i += 3) {
		w->backends[i].active = 50;
	}
	world_publish(w, LL, NULL, NULL, 1000);
	for (uint32_t i = 0; i < 20000; i++) {
		assert_true(world_flow(w) % 3 != 0);
	}
	world_free(w);
}

// A flow starts in each step. Flows at the first eighth of the backends, for example one rack, last
// three times as long. Returns the maximum number of flows in progress at a backend, as a multiple
// of the mean.
static double imbalance_of(uint32_t n) {
	enum { LAPS = 80, USUAL = 10 };
	struct world *w = world_create(n);
	uint32_t calendar = 8 * USUAL * n, most = 0, total = 0;
	uint32_t *first = malloc(calendar * sizeof(first[0])); // ends of flows: lists by step
	uint32_t *next = malloc(LAPS * n * sizeof(next[0]));
	uint16_t *of_flow = malloc(LAPS * n * sizeof(of_flow[0]));
	uint64_t seed = n;

	assert_true(first != NULL && next != NULL && of_flow != NULL);
	memset(first, 0xff, calendar * sizeof(first[0]));
	world_publish(w, LL, NULL, NULL, n);
	for (uint32_t i = 0; i < LAPS * n; i++) {
		uint32_t usual = (i % 2 + 1) * USUAL * n / 2, at;

		while ((at = first[i % calendar]) != UINT32_MAX) {
			first[i % calendar] = next[at];
			world_end(w, of_flow[at], WEIR_OUTCOME_COMPLETED);
		}
		of_flow[i] = world_flow(w);
		at = i + 1 + (uint32_t)(fixture_random(&seed) % usual);
		at += of_flow[i] < n / 8 ? 2 * (at - i) : 0;
		next[i] = first[at % calendar];
		first[at % calendar] = i;
	}
	for (uint32_t i = 0; i < n; i++) {
		most = w->backends[i].active > most ? w->backends[i].active : most;
		total += w->backends[i].active;
	}
	free(of_flow);
	free(next);
	free(first);
	world_free(w);
	return (double)most * n / total;
}

TEST(slow_neighbours_do_not_fill_up) {
	// The numbers of flows are integers with the mean 4.1, so the best possible maximum is 5.
	assert_true(imbalance_of(500) < 1.3);
	assert_true(imbalance_of(1000) < 1.3);
	assert_true(imbalance_of(2000) < 1.5);
	assert_true(imbalance_of(5000) < 1.5);
}

// Tables are published often, so the window must not restart with each table.
TEST(window_continues_from_table_to_table) {
	struct world *w = world_create(1000);
	uint32_t counts[1000] = {0};

	for (uint32_t i = 0; i < 5000; i++) {
		if (i % 10 == 0) {
			world_publish(w, LL, NULL, NULL, 1000);
		}
		counts[world_flow(w)]++;
	}
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(counts[i], 5);
	}
	world_free(w);
}

// The backend at the cursor is removed. The window continues with the backend after it, and does
// not restart at the first backend.
TEST(window_continues_without_its_first_backend) {
	struct world *w = world_create(1000);
	uint16_t ids[999];

	world_publish(w, LL, NULL, NULL, 1000);
	for (uint32_t i = 0; i < 500; i++) {
		assert_int_equal(world_choose(w), i);
	}
	for (uint32_t i = 0; i < 999; i++) {
		ids[i] = (uint16_t)(i < 500 ? i : i + 1);
	}
	world_publish(w, LL, ids, NULL, 999);
	WORLD_EXPECT(w, 501, 502, 503);
	world_free(w);
}
