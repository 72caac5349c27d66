// SPDX-License-Identifier: BSD-3-Clause
//
// Least loaded: errors and requests in progress that backends report.
#include "backend_signal.h"
#include "policy_lab.h"

#define LL WEIR_POLICY_LEAST_LOADED

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
