// SPDX-License-Identifier: BSD-3-Clause
//
// Closed backends, with every policy: a closed backend gets no new flows, even while the loaded
// table still contains the backend.
#include "policy_lab.h"

static struct world *create(enum weir_policy policy, uint32_t n, uint32_t limit) {
	struct world *w = world_create(n);

	w->table.settings.max_active_flows = limit;
	w->table.settings.when_exhausted = WEIR_EXHAUSTED_SPILL;
	world_publish(w, policy, NULL, NULL, n);
	return w;
}

static void set_closed(struct world *w, uint16_t id) {
	weir_policy_close(&w->worker, w->client, id);
}

static void set_open(struct world *w, uint16_t id) {
	weir_policy_set_limit(&w->worker, w->client, id, UINT32_MAX);
}

// A backend that is closed, before or after the table is loaded, takes no flows until it is open
// again.
TEST(closed_backend_takes_no_flow) {
	uint64_t seed = 5;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = world_create(20);
		uint32_t before;

		set_closed(w, 5);
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 20);
		set_closed(w, 6);
		for (uint32_t i = 0; i < 400; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			world_start(w, chosen.id);
		}
		assert_int_equal(w->backends[5].active, 0);
		assert_int_equal(w->backends[6].active, 0);
		assert_int_equal(w->client->closed, 2);
		set_open(w, 5);
		set_open(w, 6);
		before = w->backends[7].active;
		for (uint32_t i = 0; i < 400; i++) {
			world_start(w, world_choose_hash(w, fixture_random(&seed)).id);
		}
		assert_true(w->backends[5].active > 0);
		assert_true(w->backends[6].active > 0);
		// When the backend is open again, it does not get all flows to compensate for
		// missed flows.
		assert_true(w->backends[7].active > before || policy == WEIR_POLICY_LEAST_LOADED);
		assert_int_equal(w->client->closed, 0);
		assert_int_equal(w->worker.closed, 0);
		assert_int_equal(w->client->limits, 0);
		world_free(w);
	}
}

// The closed backend is not at its limit. Nevertheless, open backends at their limits are
// preferred.
TEST(flow_is_not_spilled_to_a_closed_backend) {
	uint64_t seed = 6;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 10, 2);

		set_closed(w, 3);
		for (uint32_t i = 0; i < 18 + 90; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, i < 18 ? WEIR_CHOSEN : WEIR_CHOSEN_SPILLED);
			assert_int_not_equal(chosen.id, 3);
			world_start(w, chosen.id);
		}
		set_open(w, 3);
		assert_int_equal(world_flow(w), 3);
		world_free(w);
	}
}

TEST(none_is_chosen_when_all_are_closed) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 10, 0);

		for (uint16_t id = 0; id < 10; id++) {
			set_closed(w, id);
		}
		assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_NONE);
		set_open(w, 8);
		assert_int_equal(world_choose_hash(w, 1).id, 8);
		world_free(w);
	}
}

// Control builds another table before more than half of the candidates are closed.
TEST(open_backend_is_found_among_thousands) {
	uint64_t seed = 7;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 5000, 0);

		for (uint32_t closed = 0; closed < 2500;) {
			uint16_t id = (uint16_t)(fixture_random(&seed) % 5000);

			closed += w->backends[id].closed == 0;
			set_closed(w, id);
		}
		assert_int_equal(w->client->closed, 2500);
		for (uint32_t i = 0; i < 20000; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, WEIR_CHOSEN);
			assert_int_equal(w->backends[chosen.id].closed, 0);
			world_start(w, chosen.id);
		}
		world_free(w);
	}
}

// A rack fails, and all other backends are at their limits. A block of closed backends must not
// cause rejected flows.
TEST(flow_is_spilled_past_blocks_of_closed_backends) {
	uint64_t seed = 8;

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 600, 1);

		for (uint16_t id = 100; id < 400; id++) {
			set_closed(w, id);
		}
		for (uint32_t i = 0; i < 300 + 1200; i++) {
			struct weir_chosen chosen = world_choose_hash(w, fixture_random(&seed));

			assert_int_equal(chosen.how, i < 300 ? WEIR_CHOSEN : WEIR_CHOSEN_SPILLED);
			assert_int_equal(w->backends[chosen.id].closed, 0);
			world_start(w, chosen.id);
		}
		world_free(w);
	}
}

// The block of candidates after the closed candidates has a single open candidate. This candidate
// must not get all new flows until the next table is published. (Maglev is not tested, because the
// slots of this lab are in the order of candidates.)
TEST(flows_spread_past_blocks_of_closed_backends) {
	uint64_t seed = 9;

	for (int policy = WEIR_POLICY_MAGLEV + 1; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 600, 0);
		uint32_t most = 0;

		for (uint16_t id = 0; id < 2 * WEIR_POLICY_WINDOW - 1; id++) {
			set_closed(w, id);
		}
		for (uint32_t i = 0; i < 345 * 10; i++) {
			world_start(w, world_choose_hash(w, fixture_random(&seed)).id);
		}
		for (uint16_t id = 0; id < 600; id++) {
			most = w->backends[id].active > most ? w->backends[id].active : most;
		}
		assert_in_range(most, 10, 50);
		world_free(w);
	}
}

// The result is "no backend", not "all are at their limit", because flow control has not refused
// the flow.
TEST(none_of_many_is_chosen_when_all_are_closed) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		struct world *w = create((enum weir_policy)policy, 300, 1);

		w->table.settings.when_exhausted = WEIR_EXHAUSTED_REJECT;
		world_publish(w, (enum weir_policy)policy, NULL, NULL, 300);
		for (uint16_t id = 0; id < 300; id++) {
			set_closed(w, id);
		}
		for (uint32_t i = 0; i < 3; i++) {
			assert_int_equal(world_choose_hash(w, 1).how, WEIR_CHOSEN_NONE);
		}
		set_open(w, 8);
		assert_int_equal(world_choose_hash(w, 1).id, 8);
		world_free(w);
	}
}

// While a backend is closed, it has no limit of its own. When the backend is open again, the limit
// of its row applies.
TEST(limits_are_those_of_open_backends) {
	struct world *w = create(WEIR_POLICY_ROUND_ROBIN, 4, 0);

	weir_policy_set_limit(&w->worker, w->client, 1, 7);
	assert_int_equal(w->client->limited, 1);
	set_closed(w, 1);
	assert_int_equal(w->client->limited, 0);
	assert_int_equal(w->client->limits, 1);
	set_closed(w, 1);
	assert_int_equal(w->client->closed, 1);
	weir_policy_set_limit(&w->worker, w->client, 1, 1);
	assert_int_equal(w->client->limited, 1);
	assert_int_equal(w->client->closed, 0);
	for (uint32_t i = 0; i < 8; i++) {
		world_flow(w);
	}
	assert_int_equal(w->backends[1].active, 1);
	world_free(w);
}

// The predicted ends of flows are far ahead of the clock. A backend that is open again starts at
// the level of the other backends.
TEST(fair_share_ignores_flows_missed_while_closed) {
	struct world *w = create(WEIR_POLICY_FAIR_SHARE, 10, 0);

	for (uint16_t id = 0; id < 10; id++) {
		w->costs[id] = SECOND;
	}
	set_closed(w, 2);
	for (uint32_t i = 0; i < 900; i++) {
		world_flow(w);
	}
	set_open(w, 2);
	for (uint32_t i = 0; i < 100; i++) {
		world_flow(w);
	}
	assert_in_range(w->backends[2].active, 9, 12);
	world_free(w);
}
