// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded, compared with a second, simple implementation.
#include "policy_lab.h"

#define LL WEIR_POLICY_LEAST_LOADED
#define MODEL_MAX WEIR_POLICY_EXACT
#define WINDOW_MS 800u
#define TICK_NS (WINDOW_MS * MS / 8)

struct model {
	uint32_t active[MODEL_MAX];
	uint32_t errors[MODEL_MAX][65536 / 64]; // errors by tick
	bool closed[MODEL_MAX];
	uint16_t candidates[MODEL_MAX];
	uint32_t weights[MODEL_MAX]; // by backend
	uint32_t backends;
	uint32_t count;
	uint32_t cursor;
	uint32_t limit;
};

static uint32_t model_load(const struct model *m, uint16_t id, uint64_t now_ns) {
	uint32_t sum = m->active[id];
	uint64_t tick = now_ns / TICK_NS;

	for (uint64_t i = tick > 7 ? tick - 7 : 0; i <= tick; i++) {
		sum += m->errors[id][i];
	}
	return sum;
}

static uint32_t model_choose(struct model *m, uint64_t now_ns) {
	uint64_t best_load = 0, best_weight = 0;
	uint32_t chosen = UINT32_MAX;

	for (uint32_t i = 0; i < m->count; i++) {
		uint32_t index = (m->cursor + i) % m->count;
		uint16_t id = m->candidates[index];

		if (m->active[id] < m->limit && !m->closed[id] &&
			(chosen == UINT32_MAX || model_load(m, id, now_ns) * best_weight <
							 best_load * m->weights[id])) {
			best_load = model_load(m, id, now_ns);
			best_weight = m->weights[id];
			chosen = index;
		}
	}
	if (chosen != UINT32_MAX) {
		m->cursor = (chosen + 1) % m->count;
	}
	return chosen;
}

// Publish some of the backends, in order. The cursor stays at its backend.
static void model_publish(struct world *w, struct model *m, uint64_t *seed) {
	uint32_t weights[MODEL_MAX];
	uint16_t next = m->count > 0 ? m->candidates[m->cursor] : 0;
	// Leave out only a few candidates, because the search for the backend at the cursor covers
	// only 128 positions.
	uint32_t of = m->backends > 200 ? 64 : 4;
	uint32_t keep = of - (uint32_t)(fixture_random(seed) % 4);
	bool found = false;

	m->count = 0;
	for (uint16_t id = 0; id < m->backends; id++) {
		if (fixture_random(seed) % of < keep || id == next) {
			found |= id == next;
			m->cursor = id == next ? m->count : m->cursor;
			weights[m->count] = m->weights[id];
			m->candidates[m->count++] = id;
		}
	}
	assert_true(found);
	w->table.settings.error_window_ms = WINDOW_MS;
	w->table.settings.max_active_flows = m->limit;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	world_publish(w, LL, m->candidates, weights, m->count);
}

static bool all_are_closed(const struct model *m) {
	uint32_t closed = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		closed += m->closed[m->candidates[i]];
	}
	return closed == m->count;
}

static void step(struct world *w, struct model *m, uint64_t *seed) {
	uint64_t what = fixture_random(seed) % 16;
	uint16_t id = (uint16_t)(fixture_random(seed) % m->backends);

	if (what < 9) {
		uint32_t expected = model_choose(m, w->now_ns);
		struct weir_chosen chosen = world_choose_hash(w, 0);

		if (expected == UINT32_MAX) {
			assert_int_equal(chosen.how,
				all_are_closed(m) ? WEIR_CHOSEN_NONE : WEIR_CHOSEN_REJECTED);
			return;
		}
		assert_int_equal(chosen.how, WEIR_CHOSEN);
		assert_int_equal(chosen.id, m->candidates[expected]);
		if (what < 8) {
			world_start(w, chosen.id);
			m->active[chosen.id]++;
		}
	} else if (what < 15) {
		bool error = fixture_random(seed) % 3 == 0;

		if (m->active[id] > 0) {
			world_end(w, id, error ? WEIR_OUTCOME_REFUSED : WEIR_OUTCOME_ABANDONED);
			m->active[id]--;
			m->errors[id][w->now_ns / TICK_NS] += error;
		}
	} else if (fixture_random(seed) % 2 == 0) {
		w->now_ns += fixture_random(seed) % (TICK_NS / 8);
	} else {
		m->closed[id] = !m->closed[id] && fixture_random(seed) % 2 == 0;
		if (m->closed[id]) {
			weir_policy_close(&w->worker, w->client, id);
		} else {
			weir_policy_set_limit(&w->worker, w->client, id, UINT32_MAX);
		}
	}
}

// The numbers of which weights are made: their common multiple divided by any of them has 16 bits.
static uint32_t random_weight(uint64_t *seed) {
	static const uint32_t weights[] = {1, 2, 3, 4, 5, 6, 8, 9, 10, 12, 15, 100, 600};

	return weights[fixture_random(seed) % (sizeof(weights) / sizeof(weights[0]))];
}

// During the comparison, backends are closed and opened, and candidates change. Rounds of equal
// weights alternate with rounds of different weights.
TEST(equals_a_simple_implementation) {
	static const uint32_t sizes[] = {20, 127, 128, 129, 200, 600, MODEL_MAX};
	struct model *m = calloc(1, sizeof(*m));
	uint64_t seed = 7;

	assert_non_null(m);
	for (uint32_t round = 0; round < 28; round++) {
		uint32_t backends = sizes[round / 2 % 7];
		struct world *w = world_create(backends);

		memset(m, 0, sizeof(*m));
		m->backends = backends;
		m->limit = round % 2 == 0 ? 1000 : backends > 200 ? 2 : 4;
		for (uint32_t i = 0; i < backends; i++) {
			m->weights[i] = round < 14 ? 100 : random_weight(&seed);
		}
		model_publish(w, m, &seed);
		for (uint32_t i = 0; i < (backends > 200 ? 8000 : 20000); i++) {
			step(w, m, &seed);
			if (i % 1000 == 999) {
				model_publish(w, m, &seed);
			}
		}
		world_free(w);
	}
	free(m);
}
