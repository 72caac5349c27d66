// SPDX-License-Identifier: BSD-3-Clause
//
// Fair share: shares that follow the costs of flows, ties, new backends, keys that wrap, more
// candidates than slots, and a comparison with a simple implementation.
#include "backend_signal.h"
#include "policy_lab.h"
#include "policy_private.h"

#define FS WEIR_POLICY_FAIR_SHARE
#define UNIT UINT64_C(1024) // unit of the keys, in ns

TEST(shares_follow_cost) {
	struct world *w = world_create(3);
	uint32_t counts[3] = {0};

	w->costs[0] = 10 * MS;
	w->costs[1] = 20 * MS;
	w->costs[2] = 40 * MS;
	world_publish(w, FS, NULL, NULL, 3);
	// A burst in which no flow ends.
	for (uint32_t i = 0; i < 7000; i++) {
		counts[world_flow(w)]++;
	}
	assert_in_range(counts[0], 3998, 4002);
	assert_in_range(counts[1], 1998, 2002);
	assert_in_range(counts[2], 998, 1002);
	world_free(w);
}

TEST(idle_backends_take_turns) {
	struct world *w = world_create(4);

	for (uint32_t i = 0; i < 4; i++) {
		w->costs[i] = (i + 1) * MS;
	}
	world_publish(w, FS, NULL, NULL, 4);
	// All flows have ended long before the next flow starts, so V (see fair_share.c) is in the
	// past, and max(now, V) is now, for any costs.
	for (uint32_t i = 0; i < 40; i++) {
		w->now_ns += SECOND;
		assert_int_equal(world_flow(w), i % 4);
	}
	world_free(w);
}

// A signal of errors, which is for another policy, must not be read as a cost of centuries.
TEST(signals_of_other_kinds_are_unknown_costs) {
	struct world *w = world_create(2);

	w->costs[0] = weir_signal_of_errors(3);
	w->costs[1] = MS;
	world_publish(w, WEIR_POLICY_FAIR_SHARE, NULL, NULL, 2);
	for (uint32_t i = 0; i < 10; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[0].end_ns, w->backends[1].end_ns);
	world_free(w);
}

TEST(unknown_costs_take_turns) {
	struct world *w = world_create(3);

	world_publish(w, FS, NULL, NULL, 3);
	for (uint32_t i = 0; i < 300; i++) {
		assert_int_equal(world_flow(w), i % 3);
	}
	assert_int_equal(w->backends[0].end_ns, 100 * WEIR_POLICY_UNKNOWN_COST_NS);
	world_free(w);
}

// Backends that are below their limit again are chosen in the order in which their flows are
// predicted to end.
TEST(backends_below_their_limit_again_are_compared) {
	struct world *w = world_create(4);

	w->table.settings.max_active_flows = 1;
	w->costs[0] = 20 * MS;
	w->costs[1] = 30 * MS;
	w->costs[2] = 10 * MS;
	w->costs[3] = 20 * MS;
	world_publish(w, FS, NULL, NULL, 4);
	for (uint16_t i = 0; i < 4; i++) {
		assert_int_equal(world_flow(w), i);
	}
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_SPILLED);
	for (uint16_t i = 0; i < 3; i++) {
		world_end(w, i, WEIR_OUTCOME_COMPLETED);
	}
	assert_int_equal(world_flow(w), 2);
	assert_int_equal(world_flow(w), 0);
	assert_int_equal(world_flow(w), 1);
	world_free(w);
}

TEST(flow_that_is_not_inserted_is_not_charged) {
	struct world *w = world_create(2);

	w->costs[0] = 10 * MS;
	w->costs[1] = 10 * MS;
	world_publish(w, FS, NULL, NULL, 2);
	WORLD_EXPECT(w, 0, 1, 0, 1);
	assert_int_equal(w->backends[0].end_ns, 0);
	assert_int_equal(world_flow(w), 0);
	WORLD_EXPECT(w, 1, 1, 1);
	world_free(w);
}

// Keys have 32 bits and a unit of 1,024 ns, so their range is 73 minutes.
TEST(hours_of_silence_are_harmless) {
	static const uint64_t pauses[] = {35 * 60 * SECOND, 37 * 60 * SECOND, 72 * 60 * SECOND,
		4398 * SECOND, 4399 * SECOND, 2 * HOUR, 24 * HOUR, 10000 * HOUR};
	struct world *w = world_create(3);

	w->costs[0] = 10 * MS;
	w->costs[1] = 20 * MS;
	w->costs[2] = 20 * MS;
	world_publish(w, FS, NULL, NULL, 3);
	for (uint32_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		uint32_t counts[3] = {0};

		w->now_ns += pauses[i];
		for (uint32_t j = 0; j < 4000; j++) {
			counts[world_flow(w)]++;
		}
		assert_in_range(counts[0], 1997, 2003);
		assert_in_range(counts[1], 998, 1002);
		assert_in_range(counts[2], 998, 1002);
	}
	world_free(w);
}

// All backends serve many long flows at the same time. Therefore V (see fair_share.c) is hours
// ahead of the clock, and the distance grows.
TEST(ends_far_ahead_of_the_clock) {
	struct world *w = world_create(4);
	uint32_t counts[4] = {0};

	for (uint32_t i = 0; i < 4; i++) {
		w->costs[i] = (i < 2 ? 300 : 600) * SECOND;
	}
	world_publish(w, FS, NULL, NULL, 4);
	for (uint32_t i = 0; i < 60000; i++) {
		w->now_ns += MS;
		counts[world_flow(w)]++;
	}
	assert_true(w->backends[0].end_ns > 1000 * HOUR);
	assert_in_range(counts[0], 19990, 20010);
	assert_in_range(counts[1], 19990, 20010);
	assert_in_range(counts[2], 9990, 10010);
	assert_in_range(counts[3], 9990, 10010);
	world_free(w);
}

// A single cost may be as large as the range of the keys. A backend with such a flow must not be
// mistaken for a backend whose flow ends soon.
TEST(ends_beyond_the_keys_are_treated_as_late) {
	struct world *w = world_create(2);
	uint32_t counts[2] = {0};

	w->costs[0] = 4000 * SECOND;
	w->costs[1] = 40 * SECOND;
	world_publish(w, FS, NULL, NULL, 2);
	for (uint32_t i = 0; i < 5050; i++) {
		counts[world_flow(w)]++;
	}
	assert_in_range(counts[0], 49, 51);
	assert_in_range(counts[1], 4999, 5001);
	world_free(w);
}

TEST(new_backend_is_not_flooded) {
	struct world *w = world_create(4);
	uint32_t counts[4] = {0};

	for (uint32_t i = 0; i < 4; i++) {
		w->costs[i] = SECOND;
	}
	world_publish(w, FS, NULL, NULL, 3);
	for (uint32_t i = 0; i < 3000; i++) {
		world_flow(w); // V gets 1,000 seconds ahead of the clock
	}
	world_publish(w, FS, NULL, NULL, 4);
	for (uint32_t i = 0; i < 400; i++) {
		counts[world_flow(w)]++;
	}
	for (uint32_t i = 0; i < 4; i++) {
		assert_in_range(counts[i], 99, 101);
	}
	world_free(w);
}

TEST(single_backend_is_always_chosen) {
	struct world *w = world_create(1);

	w->costs[0] = HOUR;
	world_publish(w, FS, NULL, NULL, 1);
	for (uint32_t i = 0; i < 1000; i++) {
		assert_int_equal(world_flow(w), 0);
	}
	world_free(w);
}

TEST(hostile_costs_and_ids) {
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->costs[i] = UINT64_MAX;
	}
	world_publish(w, FS, (const uint16_t[]){3, 1, 65535, 2, 2}, NULL, 5);
	for (uint32_t i = 0; i < 100000; i++) {
		uint16_t id = world_flow(w);

		assert_true(id == 1 || id == 2);
	}
	world_free(w);
}

// --- a second, simple implementation ---------------------------------------------------------

#define MODEL_MAX WEIR_POLICY_EXACT

struct model {
	uint64_t end_ns[MODEL_MAX];
	uint16_t candidates[MODEL_MAX];
	uint8_t taken[MODEL_MAX]; // whether the backend is a candidate
	uint8_t closed[MODEL_MAX];
	uint32_t backends;
	uint64_t last_ns; // predicted end of the last chosen flow
	uint32_t count;
	uint32_t cursor;
};

static uint64_t latest(uint64_t a, uint64_t b) {
	return a > b ? a : b;
}

static uint16_t model_choose(struct model *m, uint64_t now_ns) {
	uint64_t best = UINT64_MAX;
	uint32_t chosen = 0;

	for (uint32_t i = 0; i < m->count; i++) {
		uint32_t index = (m->cursor + i) % m->count;
		uint64_t end_ns = latest(now_ns, m->end_ns[m->candidates[index]]);

		if (end_ns < best && m->closed[m->candidates[index]] == 0) {
			best = end_ns;
			chosen = index;
		}
	}
	m->cursor = (chosen + 1) % m->count;
	m->last_ns = best;
	return m->candidates[chosen];
}

static void model_publish(struct world *w, struct model *m, uint64_t *seed) {
	uint16_t next = m->count > 0 ? m->candidates[m->cursor] : 0;
	// Leave out only a few candidates, because the search for the backend at the cursor covers
	// only 128 positions.
	uint32_t of = m->backends > 200 ? 64 : 4;
	uint32_t keep = of - (uint32_t)(fixture_random(seed) % 4);

	m->count = 0;
	for (uint16_t id = 0; id < m->backends; id++) {
		bool take = fixture_random(seed) % of < keep || id == next;

		if (take && m->taken[id] == 0) {
			m->end_ns[id] = latest(m->end_ns[id], m->last_ns);
		}
		m->taken[id] = take;
		if (take) {
			m->cursor = id == next ? m->count : m->cursor;
			m->candidates[m->count++] = id;
		}
	}
	world_publish(w, FS, m->candidates, NULL, m->count);
}

static void open_or_close(struct world *w, struct model *m, uint16_t id) {
	bool close = m->closed[id] == 0 && id % 4 != 0; // some backends are always open

	if (close) {
		weir_policy_close(&w->worker, w->client, id);
	} else {
		weir_policy_set_limit(&w->worker, w->client, id, UINT32_MAX);
	}
	if (m->closed[id] != 0) {
		m->end_ns[id] = latest(m->end_ns[id], m->last_ns);
	}
	m->closed[id] = close;
}

// Times are multiples of UNIT, so that ties are the same in both implementations. The scales apply
// to costs and to pauses.
static void compare(uint32_t backends, uint64_t cost_scale, uint64_t pause_scale, uint64_t *seed) {
	struct model *m = calloc(1, sizeof(*m));
	struct world *w = world_create(backends);

	assert_non_null(m);
	m->backends = backends;
	for (uint32_t i = 0; i < backends; i++) {
		w->costs[i] = (1 + fixture_random(seed) % 16) * cost_scale * UNIT;
	}
	model_publish(w, m, seed);
	for (uint32_t i = 0; i < (backends > 200 ? 8000 : 20000); i++) {
		uint16_t id = world_choose(w);

		assert_int_equal(id, model_choose(m, w->now_ns));
		if (fixture_random(seed) % 8 != 0) {
			world_start(w, id);
			m->end_ns[id] = latest(m->end_ns[id], w->now_ns) + w->costs[id];
		}
		w->now_ns += fixture_random(seed) % 4 * pause_scale * UNIT;
		if (i % 700 == 699) {
			w->now_ns +=
				(1 + fixture_random(seed) % 200) * 30 * 60 * SECOND / UNIT * UNIT;
		}
		if (i % 500 == 499) {
			model_publish(w, m, seed);
		}
		if (i % 16 == 15) {
			open_or_close(w, m, (uint16_t)(fixture_random(seed) % backends));
		}
	}
	world_free(w);
	free(m);
}

TEST(equals_a_simple_implementation) {
	uint64_t seed = 11;

	static const uint32_t sizes[] = {128, 129, 500, MODEL_MAX};

	for (uint32_t i = 0; i < 4; i++) {
		compare(sizes[i], 1, 0, &seed);
		compare(sizes[i], 100, 1, &seed);
		// the work takes about as long as the elapsed time
		compare(sizes[i], 1000, 100, &seed);
		compare(sizes[i], 1, 1000, &seed); // mostly idle
		// minutes per flow, so that keys are rebased repeatedly
		compare(sizes[i], 20000000, 1, &seed);
		// pauses of many minutes, so that keys are rebased repeatedly, too
		compare(sizes[i], 1000, 500000000, &seed);
	}
}

TEST(every_one_of_many_has_its_share) {
	struct world *w = world_create(2000);
	uint32_t counts[2] = {0};

	for (uint32_t i = 0; i < 2000; i++) {
		w->costs[i] = (i % 2 == 0 ? 10 : 40) * MS;
	}
	world_publish(w, FS, NULL, NULL, 2000);
	for (uint32_t i = 0; i < 100000; i++) {
		uint16_t id = world_flow(w);

		counts[id % 2]++;
		w->now_ns += 100;
	}
	assert_in_range(counts[0], 78000, 82000);
	for (uint32_t i = 0; i < 2000; i++) {
		assert_true(w->backends[i].active >= (i % 2 == 0 ? 60 : 15));
	}
	world_free(w);
}

// Starts rounds * n flows. Returns how many of them go to backend 7 of n.
static uint32_t flows_of_7(struct world *w, uint32_t n, uint32_t rounds) {
	uint32_t count = 0;

	for (uint32_t i = 0; i < rounds * n; i++) {
		count += world_flow(w) == 7;
	}
	return count;
}

static void returning_one_of(uint16_t n) {
	struct world *w = world_create(n);
	uint16_t others[2000], few[100];

	for (uint16_t i = 0; i < n; i++) {
		w->costs[i] = SECOND;
		if (i != 7) {
			others[i - (i > 7)] = i;
		}
		if (i < 101 && i != 7) {
			few[i - (i > 7)] = i;
		}
	}
	world_publish(w, FS, NULL, NULL, n);
	assert_in_range(flows_of_7(w, n, 100), 99, 101);
	world_publish(w, FS, others, NULL, n - 1);
	assert_int_equal(flows_of_7(w, n, 1000), 0);
	world_publish(w, FS, NULL, NULL, n);
	assert_in_range(flows_of_7(w, n, 10), 8, 13);
	assert_in_range(flows_of_7(w, n, 100), 99, 101);
	// A backend is added again when the number of candidates grows from few to many.
	world_publish(w, FS, few, NULL, 100);
	assert_int_equal(flows_of_7(w, n, 1000), 0);
	world_publish(w, FS, NULL, NULL, n);
	assert_in_range(flows_of_7(w, n, 10), 8, 13);
	world_free(w);
}

TEST(returning_one_of_many_is_not_flooded) {
	returning_one_of(300);
	returning_one_of(1500); // more candidates than a scan covers
}

// Starts 150 flows per second, each at a random worker. *shares: each backend's share of the flows,
// in percent.
static void shares_of_workers(uint32_t workers, double shares[4]) {
	struct world *w[16];
	uint32_t counts[4] = {0};
	uint64_t seed = 1, now_ns = 0;

	for (uint32_t i = 0; i < workers; i++) {
		w[i] = world_create(4);
		w[i]->worker.rank = i;
		w[i]->worker.ranks = workers;
		w[i]->table.settings.sharers = workers;
		for (uint32_t id = 0; id < 4; id++) {
			w[i]->costs[id] = (10 * MS) << id;
		}
		world_publish(w[i], FS, NULL, NULL, 4);
	}
	for (uint32_t i = 0; i < 200000; i++) {
		struct world *one = w[fixture_random(&seed) % workers];

		now_ns += fixture_random(&seed) % (2 * SECOND / 150);
		one->now_ns = now_ns;
		counts[world_flow(one)]++;
	}
	for (uint32_t i = 0; i < workers; i++) {
		world_free(w[i]);
	}
	for (uint32_t id = 0; id < 4; id++) {
		shares[id] = counts[id] / 2000.0;
	}
}

// Without accounting for other workers' flows, each of 16 workers would treat backends as idle and
// choose them in turn.
TEST(shares_do_not_depend_on_the_number_of_workers) {
	double alone[4], shares[4];

	shares_of_workers(1, alone);
	assert_true(alone[0] > 45 && alone[3] < 10);
	for (uint32_t workers = 2; workers <= 16; workers *= 2) {
		shares_of_workers(workers, shares);
		for (uint32_t id = 0; id < 4; id++) {
			if (shares[id] < alone[id] - 2 || shares[id] > alone[id] + 2) {
				fail_msg("%u workers: backend %u has %.1f %%, with one %.1f %%",
					workers, id, shares[id], alone[id]);
			}
		}
	}
}
