// SPDX-License-Identifier: BSD-3-Clause
//
// One service with its backends, in the form that a worker and its policies use. Arrays have
// exactly the size of the table, so that AddressSanitizer detects accesses beyond their ends.
#pragma once

#include <stdlib.h>
#include <string.h>

#include "interleaved.h"
#include "inverse_weight.h"
#include "policy.h"
#include "stride.h"
#include "test.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)
#define HOUR (3600 * SECOND)

struct world {
	struct weir_policy_backend *backends; // backends of the worker
	uint64_t *costs;
	struct weir_candidate *candidates; // candidates of the table
	struct weir_round *rounds;
	uint16_t *slots;
	struct weir_policy_worker worker;
	struct weir_policy_client *client;
	struct weir_policy_table table;
	uint64_t now_ns;
};

static inline void *fixture_alloc(size_t bytes) {
	void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);

	assert_non_null(memory);
	memset(memory, 0, bytes);
	return memory;
}

static inline uint64_t fixture_random(uint64_t *seed) {
	uint64_t x = *seed += 0x9e3779b97f4a7c15ull;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
	x = (x ^ x >> 27) * 0x94d049bb133111ebull;
	return x ^ x >> 31;
}

// Create a worker with `backends` backends, without a table.
static inline struct world *world_create(uint32_t backends) {
	struct world *w = fixture_alloc(sizeof(*w));

	w->backends = fixture_alloc(backends * sizeof(w->backends[0]));
	w->costs = calloc(backends, sizeof(w->costs[0]));
	w->client = fixture_alloc(sizeof(*w->client));
	assert_non_null(w->costs);
	w->worker.backends = w->backends;
	w->worker.cost_ns = w->costs;
	w->worker.backend_count = backends;
	w->worker.ranks = 1;
	assert_int_equal(weir_policy_windows_alloc(&w->worker), 0);
	return w;
}

static inline void world_drop_table(struct world *w) {
	free(w->candidates);
	free(w->rounds);
	free(w->slots);
	w->candidates = NULL;
	w->rounds = NULL;
	w->slots = NULL;
}

static inline void world_free(struct world *w) {
	world_drop_table(w);
	free(w->client);
	free(w->costs);
	free(w->worker.windows.key);
	free(w->backends);
	free(w);
}

// Publish a table of these ids (NULL: 0 .. n - 1) and weights (NULL: 100 each) and load it.
// Settings other than the policy stay as they are in w->table.settings.
static inline void world_publish(struct world *w, enum weir_policy policy, const uint16_t *ids,
	const uint32_t *weights, uint32_t n) {
	uint8_t needs = weir_policy_needs(policy);

	world_drop_table(w);
	w->table.settings.policy = (uint8_t)policy;
	w->table.settings.needs = needs;
	if (w->table.settings.error_window_ms == 0) {
		w->table.settings.error_window_ms = 1000;
	}
	w->table.count = n;
	w->candidates = malloc(n > 0 ? n * sizeof(w->candidates[0]) : 1);
	assert_non_null(w->candidates);
	w->table.candidates = w->candidates;
	for (uint32_t i = 0; i < n; i++) {
		w->candidates[i] = (struct weir_candidate){.id = ids != NULL ? ids[i] : (uint16_t)i,
			.weight = weights != NULL ? weights[i] : 100};
	}
	if (policy == WEIR_POLICY_WEIGHTED_ROUND_ROBIN) {
		weir_stride_scale(w->candidates, n, false);
	} else if (policy == WEIR_POLICY_LEAST_LOADED) {
		weir_inverse_weights(w->candidates, n);
	}
	w->table.round_count = 0;
	w->table.slot_count = 0;
	if ((needs & WEIR_NEEDS_ROUNDS) != 0) {
		struct weir_round *rounds = calloc(n + 1, sizeof(rounds[0]));

		assert_non_null(rounds);
		w->table.round_count = weir_interleaved_rounds(w->candidates, n, rounds);
		w->rounds = malloc((w->table.round_count + 1) * sizeof(rounds[0]));
		assert_non_null(w->rounds);
		memcpy(w->rounds, rounds, w->table.round_count * sizeof(rounds[0]));
		free(rounds);
	}
	if ((needs & WEIR_NEEDS_SLOTS) != 0 && n > 0) {
		// backends in turn; the order is not relevant in this test
		w->table.slot_count = n * 7;
		w->slots = malloc(w->table.slot_count * sizeof(w->slots[0]));
		assert_non_null(w->slots);
		for (uint32_t i = 0; i < w->table.slot_count; i++) {
			w->slots[i] = (uint16_t)(i % n);
		}
	}
	w->table.rounds = w->rounds;
	w->table.slots = w->slots;
	weir_policy_adopt(&w->worker, w->client, &w->table, w->now_ns);
}

static inline struct weir_chosen world_choose_hash(struct world *w, uint64_t hash) {
	return weir_policy_choose(&w->worker, w->client, &w->table, hash, w->now_ns);
}

// Choose a backend; the choice must come from the policy itself. Returns the backend's id.
static inline uint16_t world_choose(struct world *w) {
	struct weir_chosen chosen = world_choose_hash(w, 0);

	assert_int_equal(chosen.how, WEIR_CHOSEN);
	assert_true(chosen.id < w->worker.backend_count);
	return chosen.id;
}

static inline void world_start(struct world *w, uint16_t id) {
	weir_policy_started(&w->worker, w->client, id, w->now_ns);
}

static inline void world_end(struct world *w, uint16_t id, enum weir_outcome outcome) {
	weir_policy_ended(&w->worker, w->client, id, outcome, w->now_ns);
}

static inline uint16_t world_flow(struct world *w) {
	uint16_t id = world_choose(w);

	world_start(w, id);
	return id;
}

// Check the next choices.
static inline void world_expect(struct world *w, const uint16_t *ids, size_t n) {
	for (size_t i = 0; i < n; i++) {
		uint16_t id = world_choose(w);

		if (id != ids[i]) {
			fail_msg("choice %zu is %u, not %u", i, id, ids[i]);
		}
	}
}
#define WORLD_EXPECT(w, ...) \
	world_expect(w, (const uint16_t[]){__VA_ARGS__}, \
		sizeof((const uint16_t[]){__VA_ARGS__}) / sizeof(uint16_t))
