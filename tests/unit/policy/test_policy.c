// SPDX-License-Identifier: BSD-3-Clause
//
// Properties of every policy: names, tables with one backend or without backends, the inputs that a
// policy collects or reads, changes of the policy at run time, and hostile tables.
#include <errno.h>
#include <sys/mman.h>

#include "policy_lab.h"

TEST(names_are_parsed) {
	static const char *const names[] = {"maglev", "round-robin", "least-loaded",
		"weighted-round-robin", "interleaved-weighted-round-robin",
		"time-weighted-round-robin", "fair-share", "random", "power-of-two", "prequal"};

	assert_int_equal(sizeof(names) / sizeof(names[0]), WEIR_POLICY_COUNT);
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		assert_string_equal(weir_policy_name((enum weir_policy)policy), names[policy]);
		assert_int_equal(weir_policy_parse(names[policy]), policy);
	}
	assert_int_equal(weir_policy_parse("least-used"), -EINVAL);
	assert_int_equal(weir_policy_parse(""), -EINVAL);
	assert_string_equal(weir_policy_name(WEIR_POLICY_COUNT), "unknown");
	assert_int_equal(weir_policy_needs(WEIR_POLICY_COUNT), 0);
	assert_int_equal(weir_policy_needs(WEIR_POLICY_MAGLEV), WEIR_NEEDS_SLOTS);
}

TEST(one_backend_and_none) {
	uint64_t seed = 1;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(1);

		// The client has not loaded a table yet.
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_NONE);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 0);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_NONE);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 1);
		for (uint32_t i = 0; i < 300; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			assert_int_equal(chosen.id, 0);
			world_start(w, 0);
			w->now_ns += SECOND;
		}
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 0);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_NONE);
		world_end(w, 0, WEIR_OUTCOME_REFUSED);
		assert_int_equal(w->backends[0].active, 299);
		world_free(w);
	}
}

TEST(ten_thousand_backends_all_get_flows) {
	uint32_t *counts = calloc(10000, sizeof(counts[0]));
	uint64_t seed = 1;

	assert_non_null(counts);
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(10000);
		uint32_t met = 0;

		// The cost equals the weight, so that each turn is one flow.
		for (uint32_t i = 0; i < 10000; i++) {
			w->costs[i] = 100 * MS;
			counts[i] = 0;
		}
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 10000);
		for (uint32_t i = 0; i < 100000; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			world_start(w, chosen.id);
			met += counts[chosen.id]++ == 0;
		}
		assert_true(met > 9980);
		world_free(w);
	}
	free(counts);
}

// A table may be loaded in the middle of a burst. Whatever its length, only the candidates around
// the cursor are read. In this test, all other candidates are on unreadable pages.
TEST(adoption_reads_candidates_around_the_cursor_only) {
	const uint32_t n = 60000, page = 4096 / sizeof(struct weir_candidate);
	const size_t bytes = (size_t)n * sizeof(struct weir_candidate);

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(n);
		struct weir_candidate *candidates = mmap(
			NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct weir_policy_table table;
		uint32_t cursor, first, end, last;

		assert_ptr_not_equal(candidates, MAP_FAILED);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, n);
		for (unsigned int i = 0; i < 3000; i++) {
			world_start(w, world_choose_hash(w, i).id);
		}
		// The candidate at the cursor was removed, which causes the longest search.
		memcpy(candidates, w->candidates, bytes);
		for (uint32_t i = 0; i < n; i++) {
			candidates[i].id = (uint16_t)(candidates[i].id == w->client->cursor_id
							      ? n - 1
							      : candidates[i].id);
		}
		cursor = w->client->cursor;
		first = cursor > 2 * WEIR_POLICY_WINDOW ? cursor - 2 * WEIR_POLICY_WINDOW : 0;
		first = first / page * page;
		end = (cursor + 2 * WEIR_POLICY_WINDOW + page) / page * page;
		// the page before the first candidate
		last = (n - 2 * WEIR_POLICY_WINDOW) / page * page;
		assert_int_equal(mprotect(candidates, first * sizeof(candidates[0]), PROT_NONE), 0);
		assert_int_equal(
			mprotect(candidates + end, (last - end) * sizeof(candidates[0]), PROT_NONE),
			0);
		table = w->table;
		table.candidates = candidates;
		weir_policy_adopt(&w->worker, w->client, &table, w->now_ns);
		assert_int_equal(w->client->count, n);
		munmap(candidates, bytes);
		world_free(w);
	}
}

TEST(more_flows_end_than_started) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(2);

		world_publish(w, (enum weir_policy)policy, NULL, NULL, 2);
		world_end(w, 1, WEIR_OUTCOME_COMPLETED);
		world_end(w, 1, WEIR_OUTCOME_ABANDONED);
		assert_int_equal(w->backends[1].active, 0);
		world_start(w, 1);
		assert_int_equal(w->backends[1].active, 1);
		world_free(w);
	}
}

// --- collection of inputs --------------------------------------------------------------------

static bool has_errors(const struct weir_policy_backend *backend) {
	bool any = backend->errors != 0;

	for (uint32_t i = 0; i < WEIR_POLICY_ERROR_SLOTS; i++) {
		any |= backend->error[i] != 0;
	}
	return any;
}

static void run_with_errors(struct world *w) {
	uint64_t seed = 1;

	for (uint32_t i = 0; i < 2000; i++) {
		struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));
		enum weir_outcome outcome = (enum weir_outcome)(i % 4);

		world_start(w, chosen.id);
		world_end(w, chosen.id, outcome);
		w->now_ns += MS;
	}
}

TEST(errors_are_collected_only_when_needed) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(10);
		bool needed =
			(weir_policy_needs((enum weir_policy)policy) & WEIR_NEEDS_ERRORS) != 0;
		bool any = false;

		world_publish(w, (enum weir_policy)policy, NULL, NULL, 10);
		run_with_errors(w);
		for (uint32_t i = 0; i < 10; i++) {
			any |= has_errors(&w->backends[i]);
			any |= w->backends[i].error_tick != 0;
		}
		assert_int_equal(any, needed);
		assert_int_equal(w->client->tick != 0, needed);
		world_free(w);
	}
}

// A policy that needs neither costs nor errors must not read control's signals. In this test, the
// signals are in unreadable memory.
TEST(costs_are_read_only_when_needed) {
	void *nowhere = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(nowhere, MAP_FAILED);
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(10);

		if ((weir_policy_needs((enum weir_policy)policy) &
			    (WEIR_NEEDS_COST | WEIR_NEEDS_ERRORS | WEIR_NEEDS_PROBES)) == 0) {
			w->worker.cost_ns = nowhere;
			world_publish(w, (enum weir_policy)policy, NULL, NULL, 10);
			run_with_errors(w);
			for (uint32_t i = 0; i < 10; i++) {
				assert_int_equal(w->backends[i].end_ns, 0);
			}
			assert_int_equal(w->client->spent_ns, 0);
		}
		world_free(w);
	}
	munmap(nowhere, 4096);
}

// --- change of the policy at run time --------------------------------------------------------

TEST(policies_change_under_flows) {
	struct world *w = world_create(30);
	uint32_t active[30] = {0};
	uint64_t seed = 9;

	for (uint32_t i = 0; i < 30; i++) {
		w->costs[i] = (1 + i) * MS;
	}
	for (uint32_t round = 0; round < 300; round++) {
		enum weir_policy policy =
			(enum weir_policy)(fixture_random(&seed) % WEIR_POLICY_COUNT);
		uint32_t n = 1 + (uint32_t)(fixture_random(&seed) % 30);

		world_publish(w, policy, NULL, NULL, n);
		for (uint32_t i = 0; i < 50; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));
			uint16_t gone = (uint16_t)(fixture_random(&seed) % 30);

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			assert_true(chosen.id < n);
			world_start(w, chosen.id);
			active[chosen.id]++;
			if (active[gone] > 0) {
				world_end(w, gone, (enum weir_outcome)(i % 4));
				active[gone]--;
			}
			w->now_ns += 10 * MS;
		}
		for (uint32_t i = 0; i < 30; i++) {
			assert_int_equal(w->backends[i].active, active[i]);
		}
	}
	world_free(w);
}

TEST(least_loaded_counts_flows_started_under_other_policies) {
	struct world *w = world_create(3);

	world_publish(w, WEIR_POLICY_ROUND_ROBIN, (const uint16_t[]){0, 1}, NULL, 2);
	for (uint32_t i = 0; i < 10; i++) {
		world_flow(w);
	}
	world_publish(w, WEIR_POLICY_LEAST_LOADED, NULL, NULL, 3);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(world_flow(w), 2);
	}
	world_free(w);
}

TEST(predicted_ends_survive_another_policy) {
	struct world *w = world_create(2);

	w->costs[0] = SECOND;
	w->costs[1] = SECOND;
	world_publish(w, WEIR_POLICY_FAIR_SHARE, NULL, NULL, 2);
	for (uint32_t i = 0; i < 10; i++) {
		world_start(w, 0);
	}
	world_publish(w, WEIR_POLICY_RANDOM, NULL, NULL, 2);
	world_flow(w);
	world_publish(w, WEIR_POLICY_FAIR_SHARE, NULL, NULL, 2);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(world_flow(w), 1);
	}
	world_free(w);
}

TEST(schedule_restarts_with_its_policy) {
	static const uint32_t weights[] = {100, 200, 300};
	struct world *w = world_create(3);

	for (uint32_t i = 0; i < 3; i++) {
		w->costs[i] = 100 * MS;
	}
	for (uint32_t i = 0; i < 4; i++) {
		world_publish(w, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN, NULL, weights, 3);
		WORLD_EXPECT(w, 0, 1, 1, 2, 2);
		world_publish(w, WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN, NULL, weights, 3);
		WORLD_EXPECT(w, 0, 1, 2, 1, 2);
		world_publish(w, WEIR_POLICY_WEIGHTED_ROUND_ROBIN, NULL, weights, 3);
		WORLD_EXPECT(w, 1, 2, 2, 0);
		world_publish(w, WEIR_POLICY_ROUND_ROBIN, NULL, weights, 3);
		WORLD_EXPECT(w, 0, 1);
	}
	world_free(w);
}

TEST(service_without_candidates_may_change_policy) {
	struct world *w = world_create(3);

	world_publish(w, WEIR_POLICY_ROUND_ROBIN, NULL, NULL, 3);
	WORLD_EXPECT(w, 0, 1);
	world_publish(w, WEIR_POLICY_LEAST_LOADED, NULL, NULL, 0);
	world_start(w, 1);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_NONE);
	world_publish(w, WEIR_POLICY_LEAST_LOADED, NULL, NULL, 3);
	WORLD_EXPECT(w, 0, 2, 0, 2);
	world_free(w);
}

// --- hostile tables ---------------------------------------------------------------------------

static void fill_garbage(void *memory, size_t bytes, uint64_t *seed) {
	uint8_t *byte = memory;
	uint64_t kind = fixture_random(seed) % 4;

	for (size_t i = 0; i < bytes; i++) {
		uint8_t small = (uint8_t)(fixture_random(seed) % 16);

		byte[i] = kind == 0 ? 0xff : kind == 1 ? 0 : small;
		byte[i] = kind == 3 ? (uint8_t)fixture_random(seed) : byte[i];
	}
}

static void scramble(struct world *w, uint64_t *seed) {
	fill_garbage(w->candidates, w->table.count * sizeof(w->candidates[0]), seed);
	if (w->slots != NULL) {
		fill_garbage(w->slots, w->table.slot_count * sizeof(w->slots[0]), seed);
	}
	if (w->rounds != NULL) {
		fill_garbage(w->rounds, w->table.round_count * sizeof(w->rounds[0]), seed);
	}
	fill_garbage(w->costs, w->worker.backend_count * sizeof(w->costs[0]), seed);
}

// If a policy with random choices has drawn an invalid id, it draws again.
TEST(garbage_ids_are_not_drawn) {
	static const enum weir_policy policies[] = {WEIR_POLICY_RANDOM, WEIR_POLICY_POWER_OF_TWO};

	for (unsigned int p = 0; p < 2; p++) {
		struct world *w = world_create(4);

		world_publish(w, policies[p], (const uint16_t[]){9, 1, 65535, 3}, NULL, 4);
		for (uint32_t i = 0; i < 1000; i++) {
			uint16_t id = world_choose(w);

			assert_true(id == 1 || id == 3);
		}
		world_free(w);
	}
}

// The table and its settings are overwritten before and after they are loaded. The counts of the
// worker are always correct. AddressSanitizer checks the bounds of all arrays.
TEST(hostile_tables_do_no_harm) {
	static const uint32_t sizes[] = {1, 2, 5, 127, 128, 129, 300, 1024, 1025, 1400};
	uint64_t seed = 4;

	for (uint32_t round = 0; round < 1500; round++) {
		uint32_t n = sizes[fixture_random(&seed) % 10];
		bool many = fixture_random(&seed) % 4 == 0; // the worker has memory for keys
		struct world *w =
			world_create(many ? 1200 : 1 + (uint32_t)(fixture_random(&seed) % 20));

		for (uint32_t tables = 0; tables < 3; tables++) {
			world_publish(w,
				(enum weir_policy)(fixture_random(&seed) % WEIR_POLICY_COUNT), NULL,
				NULL, n);
			scramble(w, &seed);
			fill_garbage(&w->table.settings, sizeof(w->table.settings), &seed);
			w->table.settings.policy %= WEIR_POLICY_COUNT + 2;
			weir_policy_adopt(&w->worker, w->client, &w->table, w->now_ns);
			for (uint32_t i = 0; i < 30; i++) {
				struct weir_chosen chosen =
					world_choose_hash(w, fixture_random(&seed));

				if (chosen.how <= WEIR_CHOSEN_SPILLED) {
					assert_true(chosen.id < w->worker.backend_count);
					world_start(w, chosen.id);
					world_end(w, chosen.id, (enum weir_outcome)(i % 4));
				}
				w->now_ns += fixture_random(&seed) >> fixture_random(&seed) % 64;
			}
			scramble(w, &seed);
			n = sizes[fixture_random(&seed) % 10];
		}
		world_free(w);
	}
}
