// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: the factor that reduces the share of a new backend, and its effect with each policy.
#include "backend_signal.h"
#include "policy_lab.h"
#include "slow_start.h"

static const struct weir_slow_start_settings half_minute = {
	.window_ms = 30000, .aggression = 1, .least = 0.1};

TEST(factor_grows_within_the_window) {
	struct weir_slow_start_settings settings = half_minute;
	double before = 0;

	assert_true(weir_slow_start_factor(&settings, 0) == 0.1);
	assert_true(weir_slow_start_factor(&settings, 15000) == 0.5);
	assert_true(weir_slow_start_factor(&settings, 30000) == 1);
	assert_true(weir_slow_start_factor(&settings, UINT64_MAX) == 1);
	settings.aggression = 2;
	for (uint64_t t = 0; t <= 30000; t += 100) {
		double factor = weir_slow_start_factor(&settings, t);

		assert_true(factor >= before && factor <= 1);
		before = factor;
	}
	settings.window_ms = 0;
	assert_true(weir_slow_start_factor(&settings, 0) == 1);
	settings = (struct weir_slow_start_settings){.window_ms = 500, .aggression = 1};
	assert_true(weir_slow_start_factor(&settings, 0) == 1); // no slow start below 1 s
}

TEST(if_all_are_new_none_is_slowed_down) {
	double same[3] = {0.1, 0.1, 0.1}, mixed[4] = {0.5, 0.25, 0.5, 0.05};
	struct weir_policy_share share;

	assert_true(weir_slow_start_level(same, 3) == 3);
	weir_slow_start_share(same[0], 3, 3, &share);
	assert_int_equal(share.part, 0);
	assert_true(weir_slow_start_level(mixed, 4) == 2.6);
	assert_true(mixed[0] == 1 && mixed[1] == 0.5 && mixed[3] == 0.1);
	weir_slow_start_share(mixed[1], 2.6, 4, &share);
	assert_int_equal(share.part, WEIR_POLICY_PART_ONE / 2);
	assert_int_equal(share.turns, 788); // 0.5 * 4 / 2.6
	weir_slow_start_share(1e-9, 1, 60000, &share);
	assert_true(share.part == 1 && share.turns >= 1);
	weir_slow_start_share(0.99, 1e-3, 60000, &share);
	assert_int_equal(share.turns, UINT16_MAX);
}

// --- flows through a policy ---

#define BACKENDS 10
#define NEW 3 // the backend in slow start

struct load { // load of a run
	enum weir_policy policy;
	double factor;
	uint64_t service_ns; // duration of a flow
	uint64_t interval_ns; // time between two flows
	uint32_t flows;
};

struct ending {
	uint64_t at_ns;
	uint16_t id;
};

// For prequal: all backends report ten times a second.
static void report(struct world *w, const struct load *load, uint64_t *reported_ns) {
	if (load->policy != WEIR_POLICY_PREQUAL || w->now_ns < *reported_ns + 100 * MS) {
		return;
	}
	*reported_ns = w->now_ns;
	for (uint32_t i = 0; i < BACKENDS; i++) {
		w->costs[i] =
			weir_signal_of_probe(w->backends[i].active, load->service_ns, w->now_ns);
	}
}

// Returns the share of the new backend, divided by the mean share of the other backends.
static double run(const struct load *load) {
	uint32_t capacity = (uint32_t)(load->service_ns / load->interval_ns) + 2;
	struct ending *endings = calloc(capacity, sizeof(endings[0]));
	uint32_t first = 0, last = 0, counts[BACKENDS] = {0}, others = 0;
	struct world *w = world_create(BACKENDS);
	struct weir_policy_share share;
	uint64_t seed = 3, reported_ns = 0;

	assert_non_null(endings);
	for (uint32_t i = 0; i < BACKENDS; i++) {
		w->costs[i] = load->service_ns;
	}
	world_publish(w, load->policy, NULL, NULL, BACKENDS);
	weir_slow_start_share(load->factor, BACKENDS - 1 + load->factor, BACKENDS, &share);
	weir_policy_set_share(&w->worker, w->client, NEW, share);
	for (uint32_t i = 0; i < load->flows; i++) {
		struct weir_chosen chosen;

		w->now_ns += load->interval_ns / 2 + fixture_random(&seed) % load->interval_ns;
		while (first != last && endings[first % capacity].at_ns <= w->now_ns) {
			world_end(w, endings[first++ % capacity].id, WEIR_OUTCOME_COMPLETED);
		}
		if (last - first == capacity) {
			continue;
		}
		report(w, load, &reported_ns);
		chosen = world_choose_hash(w, fixture_random(&seed));
		assert_int_equal(chosen.how, WEIR_CHOSEN);
		world_start(w, chosen.id);
		endings[last++ % capacity] =
			(struct ending){w->now_ns + load->service_ns, chosen.id};
		counts[chosen.id] += i >= load->flows / 10;
	}
	for (uint32_t i = 0; i < BACKENDS; i++) {
		others += i != NEW ? counts[i] : 0;
	}
	world_free(w);
	free(endings);
	return counts[NEW] * (double)(BACKENDS - 1) / others;
}

// The loads are: idle, one or two flows at each backend, a moderate load, and a hundred flows at
// each backend.
TEST(share_follows_the_factor) {
	static const uint64_t services_ns[] = {MS / 10, 10 * MS, 15 * MS, 25 * MS, 1000 * MS};
	static const double factors[] = {0.1, 0.25, 0.5, 0.7, 0.9};

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		for (uint32_t i = 0; i < 25 && policy != WEIR_POLICY_MAGLEV; i++) {
			struct load load = {(enum weir_policy)policy, factors[i / 5],
				services_ns[i % 5], MS, 60000};
			double share = run(&load);

			if (share < 0.8 * load.factor || share > 1.2 * load.factor) {
				fail_msg("%s: %.3f at a factor of %.2f, %u ms",
					weir_policy_name(load.policy), share, load.factor,
					(unsigned int)(load.service_ns / MS));
			}
		}
	}
}

TEST(whole_share_after_the_window) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct load load = {(enum weir_policy)policy, 1, 10 * MS, MS, 30000};
		double share = run(&load);

		assert_true(share > 0.9 && share < 1.1);
	}
}

TEST(limit_is_reduced_by_the_factor) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(2);
		struct weir_policy_share share = {.part = WEIR_POLICY_PART_ONE / 10, .turns = 1024};

		w->table.settings.max_active_flows = 20;
		w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 2);
		weir_policy_set_share(&w->worker, w->client, 1, share);
		for (uint32_t i = 0; i < 21; i++) {
			struct weir_chosen chosen = world_choose_hash(w, (uint64_t)i << 60);

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			world_start(w, chosen.id);
		}
		assert_int_equal(w->backends[0].active, 20);
		assert_int_equal(w->backends[1].active, 1);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		// After the next step the backend gets more flows, although no flow has ended.
		share.part = WEIR_POLICY_PART_ONE / 5 + 1;
		weir_policy_set_share(&w->worker, w->client, 1, share);
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(world_flow(w), 1);
		}
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		world_free(w);
	}
}

// A subset may have only one backend.
TEST(alone_or_among_equals_all_flows_are_taken) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		for (uint32_t n = 1; n <= 3; n++) {
			struct world *w = world_create(n);
			uint32_t counts[3] = {0};

			for (uint32_t i = 0; i < n; i++) {
				w->costs[i] = 7 * MS;
			}
			world_publish(w, (enum weir_policy)policy, NULL, NULL, n);
			for (uint16_t id = 0; id < n; id++) {
				weir_policy_set_share(&w->worker, w->client, id,
					(struct weir_policy_share){WEIR_POLICY_PART_ONE / 100, 10});
			}
			for (uint32_t i = 0; i < 3000; i++) {
				struct weir_chosen chosen =
					world_choose_hash(w, (uint64_t)i * 0x9e3779b97f4a7c15);

				assert_int_equal(chosen.how, WEIR_CHOSEN);
				world_start(w, chosen.id);
				counts[chosen.id]++;
				w->now_ns += MS;
			}
			for (uint32_t i = 0; i < n; i++) {
				if (counts[i] < 3000 / n - 200 || counts[i] > 3000 / n + 200) {
					fail_msg("%s: %u of 3000 flows, of %u backends",
						weir_policy_name((enum weir_policy)policy),
						counts[i], n);
				}
			}
			world_free(w);
		}
	}
}
