// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: the example of the SRE book, a backend that refuses all flows (sinkhole), and the
// limit of active flows.
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
