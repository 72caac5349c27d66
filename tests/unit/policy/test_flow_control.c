// SPDX-License-Identifier: BSD-3-Clause
//
// Flow control: the result for a new flow when all backends have reached their limit, for every
// policy.
#include "policy_lab.h"
#include "shared_limit.h"

static struct world *create(enum weir_policy policy, uint32_t n, enum weir_when_exhausted when) {
	struct world *w = world_create(n);

	w->table.settings.max_active_flows = 3;
	w->table.settings.when_exhausted = (uint8_t)when;
	world_publish(w, policy, NULL, NULL, n);
	return w;
}

static void start_all(struct world *w, uint32_t flows_each) {
	for (uint32_t i = 0; i < flows_each; i++) {
		for (uint32_t id = 0; id < w->worker.backend_count; id++) {
			world_start(w, (uint16_t)id);
		}
	}
}

TEST(limit_holds_until_all_have_reached_it) {
	uint64_t seed = 2;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 100, WEIR_EXHAUSTED_REJECT);

		for (uint32_t i = 0; i < 300; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			assert_true(w->backends[chosen.id].active < 3);
			world_start(w, chosen.id);
		}
		for (uint32_t i = 0; i < 300; i++) {
			assert_int_equal(world_choose_hash(w, fixture_random(&seed)).how,
				WEIR_CHOSEN_REJECTED);
		}
		world_free(w);
	}
}

TEST(backend_below_its_limit_again_is_found) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 128, WEIR_EXHAUSTED_REJECT);

		start_all(w, 3);
		for (uint16_t id = 0; id < 128; id++) {
			assert_int_equal(world_choose_hash(w, id).how, WEIR_CHOSEN_REJECTED);
			world_end(w, id, WEIR_OUTCOME_COMPLETED);
			assert_int_equal(world_flow(w), id);
		}
		world_free(w);
	}
}

TEST(spill_goes_to_the_least_loaded) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 40, WEIR_EXHAUSTED_SPILL);

		start_all(w, 3);
		for (uint16_t id = 0; id < 40; id++) {
			if (id != 17 && id != 23) {
				world_start(w, id);
			}
		}
		for (uint32_t i = 0; i < 2; i++) {
			struct weir_chosen chosen = world_choose_hash(w, i);

			assert_int_equal(chosen.how, WEIR_CHOSEN_SPILLED);
			assert_int_equal(chosen.id, i == 0 ? 17 : 23);
			world_start(w, chosen.id);
		}
		world_free(w);
	}
}

TEST(spilled_flows_are_even) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 10, WEIR_EXHAUSTED_SPILL);

		start_all(w, 3);
		for (uint32_t i = 0; i < 1000; i++) {
			struct weir_chosen chosen = world_choose_hash(w, i);

			assert_int_equal(chosen.how, WEIR_CHOSEN_SPILLED);
			world_start(w, chosen.id);
			assert_int_equal(w->backends[chosen.id].active, 4 + i / 10);
		}
		world_free(w);
	}
}

// Backend 5 takes no new flow, and backend 6 takes one new flow, while other backends can take
// flows.
TEST(own_limits_hold) {
	uint64_t seed = 5;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(20);

		weir_policy_set_limit(&w->worker, w->client, 5, 0);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 20);
		weir_policy_set_limit(&w->worker, w->client, 6, 1);
		for (uint32_t i = 0; i < 400; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			world_start(w, chosen.id);
		}
		assert_int_equal(w->backends[5].active, 0);
		assert_true(w->backends[6].active <= 1);
		world_free(w);
	}
}

// If a backend has its own limit, and there is a common limit as well, the smaller limit applies.
// All backends have reached their limits. When a limit is raised or removed, flows can start again.
TEST(own_limit_that_rises_ends_exhaustion) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 40, WEIR_EXHAUSTED_REJECT);

		weir_policy_set_limit(&w->worker, w->client, 17, 1);
		weir_policy_set_limit(&w->worker, w->client, 23, 9);
		for (uint16_t id = 0; id < 40; id++) {
			for (uint32_t i = 0; i < (id == 17 ? 1 : 3); i++) {
				world_start(w, id);
			}
		}
		assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_REJECTED);
		weir_policy_set_limit(&w->worker, w->client, 17, 2);
		assert_int_equal(world_flow(w), 17);
		assert_int_equal(world_choose_hash(w, 2).how, WEIR_CHOSEN_REJECTED);
		weir_policy_set_limit(&w->worker, w->client, 17, UINT32_MAX);
		assert_int_equal(world_flow(w), 17);
		assert_int_equal(world_choose_hash(w, 3).how, WEIR_CHOSEN_REJECTED);
		assert_int_equal(w->client->limited, 1);
		world_free(w);
	}
}

// When a flow ends at a backend that has a limit of its own, every policy finds that the backend
// has room again.
TEST(own_limit_is_free_again_after_an_end) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(3);

		w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 3);
		for (uint16_t id = 0; id < 3; id++) {
			weir_policy_set_limit(&w->worker, w->client, id, 1);
			world_start(w, id);
		}
		assert_int_equal(world_choose_hash(w, 7).how, WEIR_CHOSEN_REJECTED);
		world_end(w, 1, WEIR_OUTCOME_COMPLETED);
		assert_int_equal(world_flow(w), 1);
		world_free(w);
	}
}

TEST(spills_when_no_backend_takes_flows) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(3);

		world_publish(w, (enum weir_policy)policy, NULL, NULL, 3);
		for (uint16_t id = 0; id < 3; id++) {
			weir_policy_set_limit(&w->worker, w->client, id, 0);
		}
		world_start(w, 0);
		world_start(w, 2);
		assert_int_equal(world_choose_hash(w, 7).how, WEIR_CHOSEN_SPILLED);
		assert_int_equal(world_choose_hash(w, 7).id, 1);
		world_free(w);
	}
}

// Spilled flows that are not inserted into the flow table do not count as load. The search must
// still choose backends in turn.
TEST(equals_take_turns) {
	struct world *w = create(WEIR_POLICY_ROUND_ROBIN, 10, WEIR_EXHAUSTED_SPILL);

	start_all(w, 3);
	for (uint32_t i = 0; i < 30; i++) {
		assert_int_equal(world_choose_hash(w, 0).id, i % 10);
	}
	for (uint16_t id = 0; id < 10; id++) {
		if (id != 3 && id != 7) {
			world_start(w, id);
		}
	}
	for (uint32_t i = 0; i < 30; i++) {
		assert_int_equal(world_choose_hash(w, 0).id, i % 2 == 0 ? 3 : 7);
	}
	world_free(w);
}

// If there are more candidates than one choice searches, the next choice searches other candidates.
TEST(backend_below_its_limit_among_thousands_is_found) {
	static const struct {
		uint32_t n, tries;
	} cases[] = {{129, 1}, {1000, 1}, {4096, 1}, {5000, 2}, {20000, 5}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
			struct world *w = create((enum weir_policy)policy, cases[i].n,
				i % 2 == 0 ? WEIR_EXHAUSTED_REJECT : WEIR_EXHAUSTED_SPILL);
			uint16_t room = (uint16_t)(cases[i].n - 40);
			struct weir_chosen chosen = {.how = WEIR_CHOSEN_REJECTED};

			start_all(w, 3);
			world_end(w, room, WEIR_OUTCOME_COMPLETED);
			for (uint32_t k = 0; k < cases[i].tries && chosen.how != WEIR_CHOSEN; k++) {
				chosen = world_choose_hash(w, 0);
			}
			assert_int_equal(chosen.how, WEIR_CHOSEN);
			assert_int_equal(chosen.id, room);
			world_free(w);
		}
	}
}

// Flows end on a few backends at a time, in any order. No flow is rejected while a backend has
// room. As many new flows can start as flows have ended.
TEST(none_is_rejected_while_one_of_many_has_room) {
	uint64_t seed = 5;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 1000, WEIR_EXHAUSTED_REJECT);

		start_all(w, 3);
		assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_REJECTED);
		for (uint32_t round = 0; round < 300; round++) {
			uint32_t ended = 1 + (uint32_t)(fixture_random(&seed) % 100);

			for (uint32_t i = 0; i < ended; i++) {
				uint16_t id;

				do {
					id = (uint16_t)(fixture_random(&seed) % 1000);
				} while (w->backends[id].active == 0);
				world_end(w, id, WEIR_OUTCOME_COMPLETED);
			}
			for (uint32_t i = 0; i < ended; i++) {
				struct weir_chosen chosen =
					world_choose_hash(w, fixture_random(&seed));

				assert_int_equal(chosen.how, WEIR_CHOSEN);
				assert_true(w->backends[chosen.id].active < 3);
				world_start(w, chosen.id);
			}
			assert_int_equal(world_choose_hash(w, 2).how, WEIR_CHOSEN_REJECTED);
		}
		world_free(w);
	}
}

// A backend that was removed from the table also has room, but must not be chosen.
TEST(removed_backend_is_not_remembered) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 1000, WEIR_EXHAUSTED_REJECT);

		start_all(w, 3);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 900);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		world_end(w, 950, WEIR_OUTCOME_COMPLETED);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		world_end(w, 850, WEIR_OUTCOME_COMPLETED);
		assert_int_equal(world_flow(w), 850);
		world_free(w);
	}
}

TEST(higher_limit_takes_effect_with_the_table) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 10, WEIR_EXHAUSTED_REJECT);

		start_all(w, 3);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		w->table.settings.max_active_flows = 4;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 10);
		world_flow(w);
		w->table.settings.max_active_flows = 1;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 10);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		w->table.settings.max_active_flows = 0;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 10);
		for (uint32_t i = 0; i < 100; i++) {
			world_flow(w);
		}
		world_free(w);
	}
}

// Flows also end at a backend that is not in the table (drained).
TEST(backends_outside_the_table_do_not_lift_the_limit) {
	struct world *w = world_create(5);

	w->table.settings.max_active_flows = 1;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	world_publish(w, WEIR_POLICY_LEAST_LOADED, (const uint16_t[]){0, 1}, NULL, 2);
	start_all(w, 1);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_end(w, 4, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_free(w);
}

// Established flows that move here from another worker can bring a backend to its limit, whether or
// not the policy counts flows itself. Half-open flows cannot. After the flows have moved to another
// worker, the backend has room again.
TEST(flows_of_other_workers_count) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 3, WEIR_EXHAUSTED_REJECT);

		for (uint16_t id = 0; id < 3; id++) {
			weir_policy_take_flows(&w->worker, w->client, id, 3, 0);
		}
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		weir_policy_give_flows(&w->worker, w->client, 1, 2, 0);
		assert_int_equal(world_flow(w), 1);
		assert_int_equal(world_flow(w), 1);
		assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
		weir_policy_give_flows(&w->worker, w->client, 2, 3, 0);
		weir_policy_take_flows(&w->worker, w->client, 2, 3, 3);
		assert_int_equal(w->backends[2].half_open, 3);
		assert_int_equal(world_flow(w), 2);
		weir_policy_give_flows(&w->worker, w->client, 2, 4, 3);
		assert_int_equal(w->backends[2].active, 0);
		assert_int_equal(w->backends[2].half_open, 0);
		world_free(w);
	}
}

TEST(flows_of_other_workers_are_load) {
	struct world *w = world_create(3);

	world_publish(w, WEIR_POLICY_LEAST_LOADED, NULL, NULL, 3);
	weir_policy_take_flows(&w->worker, w->client, 0, 4, 0);
	weir_policy_take_flows(&w->worker, w->client, 2, 4, 0);
	for (unsigned int i = 0; i < 4; i++) {
		assert_int_equal(world_flow(w), 1);
	}
	weir_policy_give_flows(&w->worker, w->client, 2, 2, 0);
	assert_int_equal(world_flow(w), 2);
	assert_int_equal(world_flow(w), 2);
	world_free(w);
}

// --- limits that workers share ------------------------------------------------------------------

#define LOOK_NS (UINT64_C(1) << WEIR_LIMIT_TICK_SHIFT)

static void after(struct world *w, uint64_t now_ns) {
	w->now_ns = now_ns;
	while (weir_shared_limit_turn(&w->worker, now_ns)) {
	}
}

// A scan skips backends that were found to be full, until they are checked again. There are two
// workers, and the limit is 1. One worker has flows at all backends except one.
static void check_scan(uint32_t backends) {
	struct weir_limit_word *words = fixture_alloc(backends * sizeof(words[0]));
	struct world *both[2], *w;
	uint32_t found = 0;
	uint16_t left = 0, ended;

	for (uint32_t i = 0; i < 2; i++) {
		w = both[i] = world_create(backends);
		weir_shared_limit_init(&w->worker, words,
			fixture_alloc(backends * sizeof(struct weir_limit_part)), 2);
		w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
		world_publish(w, WEIR_POLICY_LEAST_LOADED, NULL, NULL, backends);
		for (uint16_t id = 0; id < backends; id++) {
			weir_policy_count_shared(&w->worker, id, true);
			weir_policy_set_limit(&w->worker, w->client, id, 1);
		}
	}
	for (uint32_t i = 1; i < backends; i++) {
		world_start(both[0], world_choose(both[0]));
	}
	while (both[0]->backends[left].active > 0) {
		left++;
	}
	for (uint32_t i = 0; i < 4 * backends; i++) {
		assert_int_equal(world_choose(w), left);
	}
	for (uint32_t i = 0; i < backends; i++) {
		uint32_t id = w->client->choose(&w->worker, w->client, &w->table, i, w->now_ns);

		assert_true(id == left || id == WEIR_POLICY_NONE);
		found += id == left;
	}
	assert_true(backends > WEIR_POLICY_EXACT ? found > 0 : found == backends);
	world_start(w, left);
	ended = left > 0 ? 0 : 1;
	world_end(both[0], ended, WEIR_OUTCOME_COMPLETED);
	for (uint32_t i = 0; i < 2; i++) {
		after(both[i], (2 + backends / WEIR_POLICY_WINDOW) * LOOK_NS);
	}
	assert_int_equal(world_choose(w), ended);
	for (uint32_t i = 0; i < 2; i++) {
		free(both[i]->worker.parts);
		world_free(both[i]);
	}
	free(words);
}

TEST(backends_full_of_others_flows_leave_the_scan) {
	check_scan(100); // keys are in the client
	check_scan(300); // keys are in the worker
	check_scan(1500); // keys are in windows that are loaded when needed
}
