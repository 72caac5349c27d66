// SPDX-License-Identifier: BSD-3-Clause
//
// Reported share: a worker's share of the requests in progress that backends report. The tests
// check the share, which reports are used, and for how long a report is used.
#include <math.h>

#include "policy_lab.h"
#include "reported_share.h"

#define BACKENDS 10u

// Backends with flows of this instance and flows of other instances, which begin and end
// independently.
struct fleet {
	struct weir_reported_share share;
	struct weir_reported_count count[BACKENDS];
	uint32_t own[BACKENDS], others[BACKENDS], begun[BACKENDS];
	bool outside[BACKENDS];
	uint64_t now_ns, seed;
};

static struct fleet fleet_of(uint32_t own, uint32_t others) {
	struct fleet fleet = {.now_ns = SECOND, .seed = 1};

	for (uint32_t i = 0; i < BACKENDS; i++) {
		fleet.own[i] = own;
		fleet.others[i] = others;
	}
	return fleet;
}

// Ends a flow at a random backend, and begins a flow at a random backend. of: the flows of this
// instance, or of the other instances.
static void turn_over(struct fleet *fleet, uint32_t of[BACKENDS], bool own) {
	uint32_t from = (uint32_t)(fixture_random(&fleet->seed) % BACKENDS);
	uint32_t to = (uint32_t)(fixture_random(&fleet->seed) % BACKENDS);

	if (of[from] > 0) {
		of[from]--;
		of[to]++;
		fleet->begun[to] += own;
	}
}

static void report(struct fleet *fleet, uint32_t i, double all) {
	const struct weir_reported_own own = {
		.flows = fleet->own[i], .begun = fleet->begun[i], .outside = fleet->outside[i]};

	weir_reported_share_add(
		&fleet->share, &fleet->count[i], BACKENDS, all, &own, fleet->now_ns);
}

// All backends report every 100 ms. late: backends report the numbers of the previous round. apart:
// backends report numbers that do not depend on their flows.
static void run(struct fleet *fleet, uint32_t rounds, uint32_t turns, bool late, bool apart) {
	for (uint32_t round = 0; round < rounds; round++) {
		uint32_t before[BACKENDS];

		for (uint32_t i = 0; i < BACKENDS; i++) {
			before[i] = fleet->own[i] + fleet->others[i];
		}
		for (uint32_t i = 0; i < turns; i++) {
			turn_over(fleet, fleet->own, true);
			turn_over(fleet, fleet->others, false);
		}
		fleet->now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(fleet, i,
				late    ? before[i]
				: apart ? (double)(fixture_random(&fleet->seed) % 20)
					: fleet->own[i] + fleet->others[i]);
		}
	}
}

static uint64_t signal_of(const struct fleet *fleet, uint32_t i, uint32_t workers) {
	return weir_reported_share_signal(
		&fleet->share, &fleet->count[i], workers, 0, 0, fleet->now_ns);
}

TEST(share_is_that_of_a_worker) {
	static const uint32_t workers[] = {1, 2, 8};
	struct fleet fleet = fleet_of(10, 30);

	run(&fleet, 100, 10, false, false);
	for (uint32_t k = 0; k < 3; k++) {
		uint64_t word = signal_of(&fleet, 3, workers[k]);
		double flows = (double)weir_signal_share_flows(word) / WEIR_SIGNAL_FLOW;
		double all = fleet.own[3] + fleet.others[3];

		assert_int_not_equal(weir_signal_serial(word), 0);
		assert_true(fabs(flows * 4 * workers[k] / all - 1) < 0.1);
	}
}

// Only ratios are used. Therefore half-open flows, or requests that use several connections, have
// no effect.
TEST(part_is_measured_and_at_most_one) {
	struct fleet fleet = fleet_of(30, 0);
	uint64_t word;

	for (uint32_t round = 0; round < 50; round++) {
		turn_over(&fleet, fleet.own, true);
		fleet.now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(&fleet, i, fleet.own[i] / 2.0);
		}
	}
	word = signal_of(&fleet, 0, 2);
	assert_in_range(weir_signal_share_flows(word), fleet.own[0] * WEIR_SIGNAL_FLOW / 4 - 1,
		fleet.own[0] * WEIR_SIGNAL_FLOW / 4 + 1);
}

TEST(worker_with_nearly_all_flows_needs_no_reports) {
	struct fleet fleet = fleet_of(30, 2);

	run(&fleet, 50, 3, false, false);
	assert_non_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns));
	assert_int_equal(signal_of(&fleet, 0, 1), 0);
	assert_null(weir_reported_share_unused(&fleet.share, 2, fleet.now_ns));
}

// Flows of this instance turn over, and the others stay where they are.
static void run_own(struct fleet *fleet, uint32_t rounds) {
	for (uint32_t round = 0; round < rounds; round++) {
		for (uint32_t turn = 0; turn < 5; turn++) {
			turn_over(fleet, fleet->own, true);
		}
		fleet->now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(fleet, i, fleet->own[i] + fleet->others[i]);
		}
	}
}

static double charge_of(const struct fleet *fleet, uint32_t i) {
	return weir_reported_share_charge(&fleet->share, &fleet->count[i], fleet->now_ns);
}

TEST(charge_is_high_where_others_send_requests) {
	struct fleet fleet = fleet_of(10, 10);
	double mean;

	fleet.others[0] = 40;
	fleet.own[0] = 8;
	run_own(&fleet, 50);
	mean = fleet.share.all / fleet.share.own;
	assert_true(fabs(mean - 23.0 / 10) < 0.3);
	for (uint32_t i = 0; i < BACKENDS; i++) {
		double all = fleet.own[i] + fleet.others[i];
		double charge = (all + mean) / (fleet.own[i] + 1) / mean;

		assert_true(fabs(charge_of(&fleet, i) - fmin(charge, 4)) < 1e-9);
	}
	assert_true(charge_of(&fleet, 0) > 1.3);
	fleet.others[0] = 100000; // counts as four times the mean
	report(&fleet, 0, fleet.own[0] + fleet.others[0]);
	assert_true(charge_of(&fleet, 0) <= WEIR_REPORTED_CHARGE_MOST);
	fleet.now_ns += 10 * SECOND;
	assert_true(charge_of(&fleet, 0) == 1);
}

TEST(charge_needs_reports_that_can_be_true) {
	struct fleet fleet = fleet_of(10, 10);

	assert_true(charge_of(&fleet, 0) == 1); // no report
	run(&fleet, 200, 10, false, true); // they do not follow the flows
	assert_true(charge_of(&fleet, 0) == 1);
	fleet = fleet_of(10, 10);
	run_own(&fleet, 50);
	assert_true(charge_of(&fleet, 0) != 1);
	report(&fleet, 0, fleet.own[0] * 0.4); // fewer than the flows of this instance
	assert_true(charge_of(&fleet, 0) == 1);
	fleet = fleet_of(30, 2); // this instance has nearly all requests
	run_own(&fleet, 50);
	assert_true(charge_of(&fleet, 0) == 1);
}

// Of 100 flows, `turns` flows are replaced within 100 ms.
TEST(reports_count_the_less_the_more_flows_have_ended_since) {
	static const struct {
		uint32_t turns;
		uint32_t least, most; // permitted gain
	} cases[] = {{1, 250, 255}, {50, 195, 210}, {200, 100, 125}, {1500, 0, 0}};

	for (uint32_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fleet fleet = fleet_of(10, 10);
		uint64_t word;

		run(&fleet, 100, cases[i].turns, false, false);
		word = signal_of(&fleet, 0, 1);
		assert_in_range(weir_signal_share_gain(word), cases[i].least, cases[i].most);
		assert_int_equal(weir_signal_serial(word) != 0, cases[i].most > 0);
	}
}

// The spread is twice the number of flows that a worker begins at a backend until the next report.
// Here 20 flows begin at ten backends, for 16 workers: 2 * 20 / 10 / 16.
TEST(spread_is_that_of_the_flows_until_the_next_report) {
	struct fleet fleet = fleet_of(10, 10);

	run(&fleet, 100, 20, false, false);
	// a spread of 1/4
	assert_in_range(weir_signal_share_spread(signal_of(&fleet, 0, 16)), 55, 75);
	assert_int_equal(weir_signal_share_spread(signal_of(&fleet, 0, 1)), 255);
}

TEST(late_reports_are_not_used) {
	struct fleet fleet = fleet_of(10, 30);

	run(&fleet, 300, 30, true, false);
	assert_non_null(weir_reported_share_unused(&fleet.share, 4, fleet.now_ns));
	run(&fleet, 300, 30, false, false); // the reports are on time now
	assert_null(weir_reported_share_unused(&fleet.share, 4, fleet.now_ns));
}

TEST(reports_of_something_else_are_not_used) {
	struct fleet fleet = fleet_of(10, 30);

	run(&fleet, 300, 30, false, true);
	assert_non_null(weir_reported_share_unused(&fleet.share, 4, fleet.now_ns));
}

// Seven backends have only flows of other instances. They are not in the averages, which include
// only the other three backends.
TEST(backends_outside_of_the_subset_are_not_in_the_averages) {
	struct fleet fleet = fleet_of(10, 30);

	for (uint32_t i = 3; i < BACKENDS; i++) {
		fleet.outside[i] = true;
	}
	for (uint32_t round = 0; round < 100; round++) {
		fleet.own[round % 3]++;
		fleet.begun[round % 3]++;
		fleet.now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			fleet.own[i] = i < 3 ? fleet.own[i] : 0;
			report(&fleet, i, fleet.own[i] + fleet.others[i]);
		}
		fleet.own[round % 3]--;
	}
	assert_in_range(weir_signal_share_flows(signal_of(&fleet, 0, 1)), 9 * WEIR_SIGNAL_FLOW,
		11 * WEIR_SIGNAL_FLOW);
}

// Half of the backends falsely report 0. The share of a backend with correct reports is then the
// number of this instance's flows at the backend, not twice as many. A backend with a false report
// gets the mean share of the correct backends.
TEST(backend_that_reports_too_few_counts_as_without_reports) {
	struct fleet fleet = fleet_of(10, 150);

	for (uint32_t round = 0; round < 50; round++) {
		turn_over(&fleet, fleet.own, true);
		fleet.now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(&fleet, i, i % 2 == 0 ? fleet.own[i] + fleet.others[i] : 0);
		}
	}
	assert_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns));
	for (uint32_t i = 0; i < BACKENDS; i++) {
		assert_in_range(weir_signal_share_flows(signal_of(&fleet, i, 1)),
			8 * WEIR_SIGNAL_FLOW, 12 * WEIR_SIGNAL_FLOW);
	}
}

// If this instance has no flows at a backend, a report of 0 may be true. But the report is not used
// if the last report of the backend was false.
TEST(backend_that_reports_too_few_is_not_believed_without_own_flows) {
	struct fleet fleet = fleet_of(10, 150);
	uint32_t own;

	run(&fleet, 50, 10, false, false);
	own = fleet.own[4];
	fleet.now_ns += 100 * MS;
	report(&fleet, 4, 0);
	fleet.own[4] = 0;
	fleet.now_ns += 100 * MS;
	report(&fleet, 4, 0);
	assert_in_range(weir_signal_share_flows(signal_of(&fleet, 4, 1)), 8 * WEIR_SIGNAL_FLOW,
		12 * WEIR_SIGNAL_FLOW);
	fleet.own[4] = own;
	fleet.now_ns += 100 * MS;
	report(&fleet, 4, own + 20); // this report is plausible, and used
	fleet.own[4] = 0;
	fleet.now_ns += 100 * MS;
	report(&fleet, 4, 20);
	assert_in_range(weir_signal_share_flows(signal_of(&fleet, 4, 1)), WEIR_SIGNAL_FLOW,
		2 * WEIR_SIGNAL_FLOW);
}

TEST(reports_that_are_all_too_few_are_not_used) {
	struct fleet fleet = fleet_of(10, 0);

	for (uint32_t round = 0; round < 50; round++) {
		turn_over(&fleet, fleet.own, true);
		fleet.now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(&fleet, i, fleet.own[i] / 8.0);
		}
	}
	assert_string_equal(weir_reported_share_unused(&fleet.share, 4, fleet.now_ns),
		"reported requests do not rise and fall with the flows");
}

// One backend reports an absurd number once, or in every report.
TEST(absurd_number_of_one_backend_changes_little_for_the_others) {
	struct fleet fleet = fleet_of(10, 150);

	run(&fleet, 100, 10, false, false);
	for (uint32_t round = 0; round < 300; round++) {
		turn_over(&fleet, fleet.own, true);
		fleet.now_ns += 100 * MS;
		for (uint32_t i = 0; i < BACKENDS; i++) {
			report(&fleet, i,
				i == 3 && (round == 0 || round > 200)
					? UINT32_MAX
					: fleet.own[i] + fleet.others[i]);
		}
		if (round == 1 || round == 40) {
			assert_true(fleet.share.all < 200);
		}
		assert_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns));
		assert_in_range(weir_signal_share_flows(signal_of(&fleet, 2, 1)),
			4 * WEIR_SIGNAL_FLOW, 13 * WEIR_SIGNAL_FLOW);
	}
}

TEST(with_many_other_instances_reports_are_used) {
	struct fleet fleet = fleet_of(4, 60);

	for (uint32_t i = 0; i < 30; i++) {
		// the other instances have 15 times as many flows
		for (uint32_t k = 0; k < 140; k++) {
			turn_over(&fleet, fleet.others, false);
		}
		run(&fleet, 10, 10, false, false);
		assert_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns));
	}
}

TEST(backend_without_reports_has_the_mean) {
	struct fleet fleet = fleet_of(10, 30);
	struct weir_reported_count none = {0};
	uint64_t word, later_ns;

	run(&fleet, 50, 10, false, false);
	word = weir_reported_share_refresh(&fleet.share, &none, 1, 0, 0, fleet.now_ns);
	assert_in_range(weir_signal_share_flows(word), 9 * WEIR_SIGNAL_FLOW, 11 * WEIR_SIGNAL_FLOW);
	// A backend that reports keeps its share for three intervals, at least three seconds.
	word = signal_of(&fleet, 2, 1);
	assert_int_equal(weir_reported_share_refresh(&fleet.share, &fleet.count[2], 1, 5, word,
				 fleet.now_ns + 2900 * MS),
		word);
	later_ns = fleet.now_ns + 3100 * MS;
	assert_int_equal(weir_signal_serial(weir_reported_share_refresh(
				 &fleet.share, &fleet.count[2], 1, 5, word, later_ns)),
		0); // no backend reports
	fleet.now_ns = later_ns;
	report(&fleet, 3, 40);
	word = weir_reported_share_refresh(&fleet.share, &fleet.count[2], 1, 5, word, later_ns);
	assert_int_not_equal(weir_signal_serial(word), 0);
	assert_int_equal(weir_signal_share_errors(word), 5);
}

TEST(rare_reports_of_long_flows_are_valid_until_the_next) {
	struct fleet fleet = fleet_of(10, 30);

	for (uint32_t i = 0; i < 10; i++) {
		run(&fleet, 1, 1, false, false);
		fleet.now_ns += 20 * SECOND;
	}
	run(&fleet, 1, 1, false, false);
	assert_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns + 50 * SECOND));
	assert_non_null(weir_reported_share_unused(&fleet.share, 1, fleet.now_ns + 61 * SECOND));
}

TEST(errors_are_kept_with_and_without_a_share) {
	struct fleet fleet = fleet_of(10, 30);

	assert_int_equal(
		weir_reported_share_signal(&fleet.share, &fleet.count[0], 1, 7, 0, fleet.now_ns),
		weir_signal_of_errors(7));
	assert_int_equal(weir_signal_errors(weir_reported_share_refresh(
				 &fleet.share, &fleet.count[0], 1, 7, 0, fleet.now_ns)),
		7);
}

TEST(another_dataplane_begins_with_counts_of_0) {
	struct fleet fleet = fleet_of(10, 30);
	double all;

	run(&fleet, 50, 10, false, false);
	all = fleet.share.begun;
	memset(fleet.own, 0, sizeof(fleet.own));
	memset(fleet.begun, 0, sizeof(fleet.begun));
	run(&fleet, 1, 0, false, false);
	assert_true(fleet.share.begun >= 0 && fleet.share.begun <= all);
	run(&fleet, 200, 10, false, false);
	// the worker has no flows
	assert_int_equal(weir_signal_share_flows(signal_of(&fleet, 0, 1)), 0);
}

TEST(any_numbers_give_a_word_in_range) {
	static const double all[] = {0, 1, 1e9, 1e300, 0.001};
	struct fleet fleet = fleet_of(1, 1);

	for (uint32_t i = 0; i < 2000; i++) {
		uint32_t at = (uint32_t)(fixture_random(&fleet.seed) % BACKENDS);
		uint64_t word;

		fleet.own[at] = (uint32_t)fixture_random(&fleet.seed) >> (i % 32);
		fleet.begun[at] += fleet.own[at] / 2;
		fleet.now_ns += i % 3 * 50 * MS;
		report(&fleet, at, all[i % 5]);
		word = weir_reported_share_signal(&fleet.share, &fleet.count[at], i % 64 + 1,
			UINT32_MAX, fixture_random(&fleet.seed), fleet.now_ns);
		assert_true(isfinite(fleet.share.product) && isfinite(fleet.share.all));
		assert_int_equal(weir_signal_cost(word) + weir_signal_is_probe(word), 0);
		if (weir_signal_serial(word) != 0) {
			assert_int_equal(
				weir_signal_share_errors(word), WEIR_SIGNAL_SHARE_ERRORS_MAX);
			assert_int_equal(weir_signal_errors(word), 0);
		}
	}
}
