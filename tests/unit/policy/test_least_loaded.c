// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: the example of the SRE book, a backend that refuses all flows (sinkhole), the limit
// of active flows, more candidates than slots, and a comparison with a simple implementation.
#include "backend_signal.h"
#include "policy_lab.h"

#define LL WEIR_POLICY_LEAST_LOADED

static void load(struct world *w, const uint32_t *active, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		for (uint32_t j = 0; j < active[i]; j++) {
			world_start(w, (uint16_t)i);
		}
	}
}

TEST(book_example) {
	static const uint16_t picks[] = {2, 3, 5, 7, 8};
	static const uint16_t more[] = {4, 5, 7, 8, 9};
	struct world *w = world_create(10);

	world_publish(w, LL, NULL, NULL, 10);
	load(w, (const uint32_t[]){2, 1, 0, 0, 1, 0, 2, 0, 0, 1}, 10);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(world_flow(w), picks[i]);
	}
	world_end(w, 4, WEIR_OUTCOME_COMPLETED);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(world_flow(w), more[i]);
	}
	world_free(w);
}

// Simulates three backends. Every 100 ms a flow starts, and lasts a second. Backend 0 refuses its
// flows at once.
static void run_sinkhole(uint8_t needs, uint64_t begin_ns, uint16_t *picks, uint32_t n) {
	struct world *w = world_create(3);

	world_publish(w, LL, NULL, NULL, 3);
	w->table.settings.needs = needs;
	w->now_ns = begin_ns;
	weir_policy_adopt(&w->worker, w->client, &w->table, w->now_ns);
	for (uint32_t i = 0; i < n; i++) {
		w->now_ns = begin_ns + i * 100 * MS;
		if (i >= 10 && picks[i - 10] != 0) {
			world_end(w, picks[i - 10], WEIR_OUTCOME_COMPLETED);
		}
		picks[i] = world_flow(w);
		if (picks[i] == 0) {
			world_end(w, 0, WEIR_OUTCOME_REFUSED);
		}
	}
	world_free(w);
}

TEST(errors_keep_a_refusing_backend_from_all_flows) {
	uint16_t picks[30];

	// Try different start times of the ticks.
	for (uint64_t begin = 0; begin < 300 * MS; begin += 17 * MS) {
		run_sinkhole(WEIR_NEEDS_ERRORS, begin, picks, 30);
		for (uint32_t i = 0; i < 30; i++) {
			assert_int_equal(picks[i], i % 3);
		}
	}
}

// Workers cannot detect errors within connections, which look like short flows. Errors reported by
// the backend count as active flows, also after a change of the report.
TEST(reported_errors_count_as_active) {
	struct world *w = world_create(200);

	// including backends that enter the sliding window
	for (uint32_t n = 3; n <= 200; n += 197) {
		uint32_t failing = 0;

		world_publish(w, LL, NULL, NULL, n);
		w->costs[1] = weir_signal_of_errors(5);
		w->now_ns += SECOND / 4;
		for (uint32_t i = 0; i < 4 * n; i++) {
			failing += world_choose(w) == 1;
			w->now_ns += MS;
		}
		assert_int_equal(failing, 0);
		w->costs[1] = 0;
		w->now_ns += SECOND / 4;
		for (uint32_t i = 0; i < 4 * n; i++) {
			failing += world_choose(w) == 1;
		}
		assert_true(failing >= 3);
	}
	world_free(w);
}

// With an error window of 30 s, each of its time slots lasts nearly 4 s.
TEST(reports_are_read_for_any_length_of_the_window) {
	struct world *w = world_create(2);

	w->table.settings.error_window_ms = 30000;
	world_publish(w, LL, NULL, NULL, 2);
	world_choose(w);
	w->costs[0] = weir_signal_of_errors(5);
	w->now_ns += SECOND / 4;
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(world_choose(w), 1);
	}
	w->costs[0] = 20 * MS; // a signal of cost, which is for another policy
	w->now_ns += SECOND / 4;
	assert_int_equal(world_choose(w) + world_choose(w), 1);
	world_free(w);
}

// Set the share of a backend to this number of flows, without random variation.
static void set_share(struct world *w, uint16_t id, double flows) {
	const struct weir_signal_share share = {.flows = flows, .gain = 1};

	w->costs[id] = weir_signal_of_share(&share, w->costs[id]);
}

static void start_flows(struct world *w, uint16_t id, uint32_t n) {
	for (uint32_t i = 0; i < n; i++) {
		world_start(w, id);
	}
}

// The worker has 1 flow at each of three backends. Its shares of the flows that these backends
// report are 4.5, 3.5 and 2.5. The worker chooses backends so that the shares become equal. From
// then on, its own flows count.
TEST(shares_of_reported_requests_are_made_even) {
	struct world *w = world_create(3);
	uint32_t given[3] = {0};

	world_publish(w, LL, NULL, NULL, 3);
	for (uint16_t id = 0; id < 3; id++) {
		start_flows(w, id, 1);
		set_share(w, id, 4.5 - id);
	}
	w->now_ns += SECOND / 4;
	for (uint32_t i = 0; i < 6; i++) {
		given[world_flow(w)]++;
	}
	assert_int_equal(given[0], 1);
	assert_int_equal(given[1], 2);
	assert_int_equal(given[2], 3);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED); // one flow less than at the other backends
	assert_int_equal(world_flow(w), 0);
	for (uint16_t id = 0; id < 3; id++) {
		w->costs[id] = 0; // own flows: 2, 3, 4
	}
	w->now_ns += SECOND / 4;
	WORLD_EXPECT(w, 0, 0);
	world_free(w);
}

// A second report with the same number of flows is a new report. Its number includes the flows that
// the worker has started since the first report.
TEST(each_report_replaces_the_one_before) {
	struct world *w = world_create(2);

	world_publish(w, LL, NULL, NULL, 2);
	start_flows(w, 0, 3);
	start_flows(w, 1, 3);
	set_share(w, 0, 5);
	set_share(w, 1, 8);
	w->now_ns += SECOND / 4;
	WORLD_EXPECT(w, 0, 0);
	start_flows(w, 0, 4);
	WORLD_EXPECT(w, 1, 1);
	set_share(w, 0, 5);
	w->now_ns += SECOND / 4;
	WORLD_EXPECT(w, 0, 0); // 7 own flows: more than 5, and less than 8
	start_flows(w, 0, 2);
	WORLD_EXPECT(w, 1, 1);
	world_free(w);
}

// A backend that falsely reports no requests in progress gets no more flows than without reports.
TEST(share_below_own_flows_changes_nothing) {
	struct world *w = world_create(3);

	world_publish(w, LL, NULL, NULL, 3);
	for (uint32_t i = 0; i < 30; i++) {
		for (uint16_t id = 0; id < 3; id++) {
			set_share(w, id, id == 1 ? 0 : w->backends[id].active);
		}
		w->now_ns += SECOND / 4;
		assert_int_equal(world_flow(w), i % 3);
	}
	world_free(w);
}

// With a gain of 0.5, half of the difference between the reported flows and the worker's own flows
// counts as load.
TEST(gain_is_that_of_the_report) {
	const struct weir_signal_share share = {.flows = 11, .gain = 0.5, .errors = 3};
	struct world *w = world_create(2);

	world_publish(w, LL, NULL, NULL, 2);
	start_flows(w, 0, 1);
	start_flows(w, 1, 10);
	w->costs[0] = weir_signal_of_share(&share, 0);
	w->now_ns += SECOND / 4;
	WORLD_EXPECT(w, 0); // load: 1 + 10 / 2 + 3 = 9
	start_flows(w, 0, 2);
	WORLD_EXPECT(w, 1, 1);
	world_free(w);
}

// 16 workers read the same reports. If each worker chose the smallest share, all workers would
// choose the same backend.
TEST(workers_differ_by_the_spread) {
	uint32_t given[2][10] = {0};
	uint32_t most[2] = {0};

	for (uint32_t rank = 0; rank < 16; rank++) {
		for (uint32_t spread = 0; spread < 2; spread++) {
			struct world *w = world_create(10);

			w->worker.rank = rank;
			w->worker.ranks = 16;
			world_publish(w, LL, NULL, NULL, 10);
			for (uint16_t id = 0; id < 10; id++) {
				const struct weir_signal_share share = {
					.flows = id / 64.0, .gain = 1, .spread = spread};

				w->costs[id] = weir_signal_of_share(&share, 0);
			}
			w->now_ns += SECOND / 4;
			given[spread][world_flow(w)]++;
			world_free(w);
		}
	}
	for (uint32_t id = 0; id < 10; id++) {
		most[0] = given[0][id] > most[0] ? given[0][id] : most[0];
		most[1] = given[1][id] > most[1] ? given[1][id] : most[1];
	}
	assert_int_equal(most[0], 16);
	assert_in_range(most[1], 2, 6);
}

TEST(serial_is_another_with_each_report_and_never_0) {
	const struct weir_signal_share share = {.flows = 1, .gain = 1};
	uint64_t word = weir_signal_of_errors(UINT32_MAX);

	for (uint32_t i = 0; i < 200; i++) {
		uint64_t next = weir_signal_of_share(&share, word);

		assert_int_not_equal(weir_signal_serial(next), weir_signal_serial(word));
		assert_in_range(weir_signal_serial(next), 1, WEIR_SIGNAL_SERIALS);
		word = next;
	}
}

TEST(without_errors_a_failing_backend_gets_most_flows) {
	static const uint16_t expected[] = {0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 0, 0,
		0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0};
	uint16_t picks[30];

	run_sinkhole(0, 0, picks, 30);
	for (uint32_t i = 0; i < 30; i++) {
		assert_int_equal(picks[i], expected[i]);
	}
}

TEST(limit_of_two_rejects_the_seventh) {
	struct world *w = world_create(3);

	w->table.settings.max_active_flows = 2;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	world_publish(w, LL, NULL, NULL, 3);
	for (uint32_t i = 0; i < 6; i++) {
		assert_int_equal(world_flow(w), i % 3);
	}
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_end(w, 1, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_flow(w), 1);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_free(w);
}

TEST(flow_that_is_not_inserted_is_no_load) {
	struct world *w = world_create(3);

	world_publish(w, LL, NULL, NULL, 3);
	WORLD_EXPECT(w, 0, 1, 2, 0, 1, 2);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(w->backends[i].active, 0);
	}
	world_free(w);
}

// Errors expire even if no backend is chosen in the meantime. After hours, the backend is equal to
// the other backends.
TEST(errors_expire_without_traffic) {
	static const uint64_t pauses[] = {1000 * MS, 1001 * MS, 10 * SECOND, 100 * HOUR};
	struct world *w = world_create(2);

	world_publish(w, LL, NULL, NULL, 2);
	for (uint32_t i = 0; i < sizeof(pauses) / sizeof(pauses[0]); i++) {
		for (uint32_t j = 0; j < 5; j++) {
			world_start(w, 0);
			world_end(w, 0, WEIR_OUTCOME_UNANSWERED);
		}
		WORLD_EXPECT(w, 1, 1, 1);
		w->now_ns += 800 * MS;
		WORLD_EXPECT(w, 1, 1);
		w->now_ns += pauses[i] - 800 * MS;
		WORLD_EXPECT(w, 0, 1, 0, 1);
	}
	world_free(w);
}

// --- a second, simple implementation ---------------------------------------------------------

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

// --- different weights ----------------------------------------------------------------------

TEST(flows_in_progress_follow_the_weights) {
	static const uint32_t weights[] = {100, 200, 500, 0x7fff, 1};
	struct world *w = world_create(5);
	uint32_t sum = 0;

	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 8000; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[0].active, 1000);
	assert_int_equal(w->backends[1].active, 2000);
	assert_int_equal(w->backends[2].active, 5000);
	// Weights can change at any time.
	world_publish(w, LL, NULL, (const uint32_t[]){500, 200, 100}, 3);
	for (uint32_t i = 0; i < 32000; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[0].active, 25000);
	assert_int_equal(w->backends[1].active, 10000);
	assert_int_equal(w->backends[2].active, 5000);
	world_publish(w, LL, NULL, NULL, 3);
	for (uint32_t i = 0; i < 35000; i++) {
		world_flow(w);
	}
	for (uint16_t id = 0; id < 3; id++) {
		assert_int_equal(w->backends[id].active, 25000);
	}
	for (uint32_t i = 0; i < 5; i++) {
		sum += weights[i];
	}
	world_free(w);
	w = world_create(5);
	world_publish(w, LL, NULL, weights, 5);
	for (uint32_t i = 0; i < 10 * sum; i++) {
		world_flow(w);
	}
	for (uint32_t i = 0; i < 5; i++) {
		// 16 bits are not enough for these weights: an error of at most weight / 131,070
		uint32_t error = 1 + (uint32_t)(10.0 * weights[i] * weights[i] / 131070);

		assert_in_range(
			w->backends[i].active, 10 * weights[i] - error, 10 * weights[i] + error);
	}
	world_free(w);
}

// Errors count as active flows, so they are divided by the weight, too.
TEST(errors_are_divided_by_the_weight) {
	struct world *w = world_create(2);

	world_publish(w, LL, NULL, (const uint32_t[]){1, 4}, 2);
	for (uint32_t i = 0; i < 4; i++) {
		world_start(w, 1);
		world_end(w, 1, WEIR_OUTCOME_UNANSWERED);
	}
	world_start(w, 0);
	world_start(w, 0);
	WORLD_EXPECT(w, 1, 1);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	world_end(w, 0, WEIR_OUTCOME_COMPLETED);
	WORLD_EXPECT(w, 0, 0);
	world_free(w);
}

// The load of the chosen backend over its weight is the least of all, as exact as the strides.
TEST(arbitrary_weights_and_loads) {
	uint64_t seed = 3;

	for (uint32_t round = 0; round < 400; round++) {
		uint32_t n = 2 + (uint32_t)(fixture_random(&seed) % 300), weights[302];
		struct world *w = world_create(n);
		double least = 1e300, error = 0;
		uint16_t chosen;

		for (uint32_t i = 0; i < n; i++) {
			weights[i] = 1 + (uint32_t)(fixture_random(&seed) % 65535);
			w->backends[i].active = (uint32_t)(fixture_random(&seed) % 5000000) + 1;
		}
		world_publish(w, LL, NULL, weights, n);
		for (uint32_t i = 0; i < n; i++) {
			double load = (double)w->backends[i].active / weights[i];

			least = load < least ? load : least;
			error = w->candidates[i].stride != 0 &&
						0.5 / w->candidates[i].stride > error
					? 0.5 / w->candidates[i].stride
					: error;
		}
		chosen = world_choose(w);
		assert_true((double)w->backends[chosen].active / weights[chosen] <=
			    least * (1 + 2.1 * error) + 1e-9);
		world_free(w);
	}
}

// Products of loads and factors that do not fit into a key make the keys coarser, but not equal.
TEST(loads_too_large_for_exact_keys) {
	static const uint32_t weights[] = {65535, 65521, 9973};
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->backends[i].active = weights[i] * 200;
	}
	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 141029; i++) { // the sum of the weights
		world_flow(w);
		w->now_ns += MS;
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_in_range(w->backends[i].active, weights[i] * 200.99, weights[i] * 201.01);
	}
	world_free(w);
	// Loads that grow after the table was loaded.
	w = world_create(3);
	world_publish(w, LL, NULL, weights, 3);
	for (uint32_t i = 0; i < 3; i++) {
		w->backends[i].active = weights[i] * 200;
		world_start(w, (uint16_t)i);
	}
	w->now_ns += SECOND;
	world_choose(w); // the tick makes the keys coarser
	for (uint32_t i = 0; i < 141029; i++) {
		world_flow(w);
	}
	for (uint32_t i = 0; i < 3; i++) {
		assert_in_range(w->backends[i].active, weights[i] * 200.99, weights[i] * 201.01);
	}
	world_free(w);
}

// Fair-share keeps predicted ends where least-loaded keeps factors.
TEST(weights_survive_changes_of_the_policy) {
	static const uint32_t weights[] = {100, 300};
	struct world *w = world_create(2);

	w->now_ns = HOUR;
	for (uint32_t i = 0; i < 3; i++) {
		uint32_t given[2] = {0};

		world_publish(w, WEIR_POLICY_FAIR_SHARE, NULL, weights, 2);
		for (uint32_t k = 0; k < 400; k++) {
			given[world_choose(w)]++;
			w->now_ns += 10 * MS;
		}
		assert_in_range(given[0], 190, 210);
		world_publish(w, LL, NULL, weights, 2);
		for (uint32_t k = 0; k < 400; k++) {
			world_flow(w);
		}
		assert_int_equal(w->backends[0].active, 100 * (i + 1));
		assert_int_equal(w->backends[1].active, 300 * (i + 1));
	}
	world_free(w);
}

// --- more candidates than slots -------------------------------------------------------------

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
