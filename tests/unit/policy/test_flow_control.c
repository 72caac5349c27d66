// SPDX-License-Identifier: BSD-3-Clause
//
// Flow control: what happens to a new flow when all have reached their limit, for every policy.
#include "policy_lab.h"

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

static void limit_holds_until_all_have_reached_it(void **state) {
	uint64_t seed = 2;

	(void)state;
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

static void one_that_is_below_again_is_found(void **state) {
	(void)state;
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

static void spill_goes_to_the_least_loaded(void **state) {
	(void)state;
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

static void spilled_flows_are_even(void **state) {
	(void)state;
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

// Flows that are spilled and not entered are no load: the search must take turns all the same.
static void equals_take_turns(void **state) {
	struct world *w = create(WEIR_POLICY_ROUND_ROBIN, 10, WEIR_EXHAUSTED_SPILL);

	(void)state;
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

static void one_below_among_thousands_is_found(void **state) {
	(void)state;
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 5000, WEIR_EXHAUSTED_REJECT);
		struct weir_chosen chosen = {.how = WEIR_CHOSEN_REJECTED};

		start_all(w, 3);
		world_end(w, 4321, WEIR_OUTCOME_COMPLETED);
		// Each choice looks at some of them, and the next one at others.
		for (uint32_t i = 0; i < 5000 && chosen.how == WEIR_CHOSEN_REJECTED; i++) {
			chosen = world_choose_hash(w, 0);
		}
		assert_int_equal(chosen.how, WEIR_CHOSEN);
		assert_int_equal(chosen.id, 4321);
		world_free(w);
	}
}

static void higher_limit_takes_effect_with_the_table(void **state) {
	(void)state;
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

// A backend that is not of the table (drained) ends its flows too.
static void others_do_not_lift_the_limit(void **state) {
	struct world *w = world_create(5);

	(void)state;
	w->table.settings.max_active_flows = 1;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
	world_publish(w, WEIR_POLICY_LEAST_LOADED, (const uint16_t[]){0, 1}, NULL, 2);
	start_all(w, 1);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_end(w, 4, WEIR_OUTCOME_COMPLETED);
	assert_int_equal(world_choose_hash(w, 0).how, WEIR_CHOSEN_REJECTED);
	world_free(w);
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(limit_holds_until_all_have_reached_it),
		cmocka_unit_test(one_that_is_below_again_is_found),
		cmocka_unit_test(spill_goes_to_the_least_loaded),
		cmocka_unit_test(spilled_flows_are_even),
		cmocka_unit_test(equals_take_turns),
		cmocka_unit_test(one_below_among_thousands_is_found),
		cmocka_unit_test(higher_limit_takes_effect_with_the_table),
		cmocka_unit_test(others_do_not_lift_the_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
