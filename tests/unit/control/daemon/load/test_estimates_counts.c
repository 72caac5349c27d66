// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how the signals that workers read are computed from the workers' counters and from reports.
// With policies that count flows, each worker gets a share of the requests in progress that a
// backend reports.
#include <string.h>

#include "backend_signal.h"
#include "estimates_lab.h"

#define BACKENDS 4u
#define OTHERS 12u // flows of other instances at each backend

static void set_flows(struct estimates_lab *lab, uint16_t id, uint32_t open, uint32_t begun) {
	const struct weir_segment *segment = lab->lab.segment;

	for (uint32_t worker = 0; worker < segment->workers; worker++) {
		struct weir_share_counters *counters =
			weir_segment_backend_counters(segment, worker, id);

		counters->open_flows = open / segment->workers;
		counters->new_flows = begun / segment->workers;
	}
}

static void report(struct estimates_lab *lab, uint16_t id, double active) {
	const struct weir_report report = {.given = WEIR_REPORT(ACTIVE), .active_requests = active};
	char why[256];

	assert_int_equal(
		weir_estimates_report(lab->estimates, id, &report, lab->now, why, sizeof(why)),
		WEIR_REPORT(ACTIVE));
}

// Simulate rounds of 100 ms. In each round, each backend has 4 or 8 flows of this instance, and two
// of its flows are new. The backend reports these flows and the flows of other instances.
static void run(struct estimates_lab *lab, uint32_t rounds) {
	for (uint32_t round = 0; round < rounds; round++) {
		lab->now += LAB_SECOND / 10;
		for (uint16_t id = 0; id < BACKENDS; id++) {
			uint32_t open = 4 + (round + id) / 2 % 2 * 4;

			set_flows(lab, id, open, 2 * round);
			report(lab, id, open + OTHERS);
		}
	}
}

static void expect_share(const struct estimates_lab *lab, uint16_t id, double flows) {
	uint64_t word = lab_cost(lab, id);

	assert_true(weir_signal_is_share(word));
	assert_in_range(weir_signal_share_flows(word), flows * 0.8 * WEIR_SIGNAL_FLOW,
		flows * 1.2 * WEIR_SIGNAL_FLOW);
}

static void open_lab(struct estimates_lab *lab, enum weir_policy policy) {
	estimates_lab_open(lab, 1, BACKENDS);
	lab_policy(lab, 0, policy);
	lab->config->services[0].policy.error_window_ms = 1000;
	lab_apply_follow(lab);
}

TEST(workers_get_their_share) {
	static const enum weir_policy policies[] = {
		WEIR_POLICY_LEAST_LOADED, WEIR_POLICY_POWER_OF_TWO};

	for (uint32_t p = 0; p < 2; p++) {
		struct estimates_lab lab;
		uint64_t before;

		open_lab(&lab, policies[p]);
		assert_int_equal(weir_estimates_wants(lab.estimates, 0),
			WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE));
		run(&lab, 40);
		// 6 of the 18 flows belong to this instance.
		report(&lab, 1, 60);
		expect_share(&lab, 1, 20.0 / lab.lab.segment->workers);
		before = lab_cost(&lab, 1);
		report(&lab, 1, 60);
		assert_int_not_equal(
			weir_signal_serial(lab_cost(&lab, 1)), weir_signal_serial(before));
		estimates_lab_close(&lab);
	}
}

// Count for each backend how many workers use it, according to the published subsets.
static void count_users(const struct estimates_lab *lab, uint32_t users[BACKENDS]) {
	struct weir_subset_part part[BACKENDS];
	struct weir_service_state state;

	memset(users, 0, BACKENDS * sizeof(users[0]));
	assert_int_equal(weir_tables_service(lab->lab.tables, 0, &state), 0);
	for (uint32_t subset = 0; subset < state.subsets; subset++) {
		uint32_t n = weir_tables_subset_parts(lab->lab.tables, 0, subset, part, BACKENDS);

		for (uint32_t i = 0; i < n; i++) {
			users[part[i].backend] += state.subsets > 1 ? 1 : lab->lab.segment->workers;
		}
	}
}

// Simulate rounds. Each worker has 4 or 8 flows at each backend that it uses. Two other instances
// have as many flows at these backends. Backends that no worker uses have only flows of other
// instances.
static void run_users(struct estimates_lab *lab, const uint32_t users[BACKENDS]) {
	for (uint32_t round = 0; round < 40; round++) {
		lab->now += LAB_SECOND / 10;
		for (uint16_t id = 0; id < BACKENDS; id++) {
			uint32_t open = users[id] * (4 + (round + id) / 2 % 2 * 4);

			set_flows(lab, id, open, users[id] > 0 ? 2 * round : 0);
			report(lab, id, users[id] > 0 ? 3 * open : 36);
		}
	}
}

// The service has four backends. Either all workers of the instance use the same two backends, or
// each worker has its own subset of two backends.
TEST(in_a_subset_the_share_is_that_of_its_workers) {
	static const enum weir_subset_client clients[] = {
		WEIR_SUBSET_CLIENT_INSTANCE, WEIR_SUBSET_CLIENT_WORKER};

	for (uint32_t c = 0; c < 2; c++) {
		uint32_t users[BACKENDS], used = 0;
		struct estimates_lab lab;

		open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
		lab.config->services[0].subset.algorithm = WEIR_SUBSET_DETERMINISTIC;
		lab.config->services[0].subset.size = 2;
		lab.config->services[0].subset.client = clients[c];
		lab_apply_follow(&lab);
		count_users(&lab, users);
		run_users(&lab, users);
		assert_null(weir_estimates_requests_unused(lab.estimates, 0, lab.now));
		for (uint16_t id = 0; id < BACKENDS; id++) {
			if (users[id] == 0) {
				assert_int_equal(lab_cost(&lab, id), 0);
				continue;
			}
			used++;
			report(&lab, id, 24);
			expect_share(&lab, id, 8.0 / users[id]);
		}
		assert_int_equal(used, c == 0 ? 2 : 4);
		estimates_lab_close(&lab);
	}
}

// Three backends are in maintenance. They still have flows of this instance, and other instances
// send new flows to them.
TEST(backend_in_maintenance_is_not_in_the_averages) {
	uint32_t users[BACKENDS];
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
	for (uint16_t id = 1; id < BACKENDS; id++) {
		weir_tables_set_admin(lab.lab.tables, id, WEIR_ADMIN_MAINTENANCE);
	}
	lab_settle(&lab.lab);
	weir_estimates_second(lab.estimates, lab.now);
	memset(users, 0, sizeof(users));
	users[0] = lab.lab.segment->workers;
	run_users(&lab, users);
	report(&lab, 0, 60);
	expect_share(&lab, 0, 20.0 / users[0]);
	weir_estimates_second(lab.estimates, lab.now);
	expect_share(&lab, 0, 20.0 / users[0]);
	assert_int_equal(lab_cost(&lab, 1), 0);
	estimates_lab_close(&lab);
}

// The service times of all backends are equal, but backend 1 has three times as many requests of
// other instances.
TEST(fair_share_charges_for_the_requests_of_others) {
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_FAIR_SHARE);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		lab_sample(&lab, 0, id, 10 * LAB_MS);
	}
	lab_collect(&lab);
	assert_true((weir_estimates_wants(lab.estimates, 0) & WEIR_REPORT(ACTIVE)) != 0);
	for (uint32_t round = 0; round < 40; round++) {
		lab.now += LAB_SECOND / 10;
		for (uint16_t id = 0; id < BACKENDS; id++) {
			uint32_t open = 4 + (round + id) / 2 % 2 * 4;

			set_flows(&lab, id, open, 2 * round);
			report(&lab, id, open + (id == 1 ? 3 * OTHERS : OTHERS));
		}
	}
	assert_null(weir_estimates_requests_unused(lab.estimates, 0, lab.now));
	for (uint16_t id = 0; id < BACKENDS; id++) {
		set_flows(&lab, id, 8, 80);
		report(&lab, id, 8 + (id == 1 ? 3 * OTHERS : OTHERS));
	}
	// 6 of 24 requests are flows of this instance.
	assert_in_range(lab_cost(&lab, 0), 6 * LAB_MS, 7.5 * LAB_MS);
	assert_in_range(lab_cost(&lab, 1), 12.5 * LAB_MS, 14.5 * LAB_MS);
	lab.now += 10 * LAB_SECOND; // the reports have expired
	weir_estimates_second(lab.estimates, lab.now);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		assert_int_equal(lab_cost(&lab, id), 10 * LAB_MS);
	}
	estimates_lab_close(&lab);
}

// With other policies, the counts of reports are not kept.
TEST(charges_end_with_the_policy) {
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_FAIR_SHARE);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		lab_sample(&lab, 0, id, 10 * LAB_MS);
	}
	lab_collect(&lab);
	run(&lab, 40);
	assert_int_not_equal(lab_cost(&lab, 0), 10 * LAB_MS);
	lab_policy(&lab, 0, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN);
	lab_apply_follow(&lab);
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 10 * LAB_MS);
	estimates_lab_close(&lab);
}

TEST(without_reports_there_are_none) {
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
	run(&lab, 40);
	lab.now += LAB_SECOND / 2;
	weir_estimates_second(lab.estimates, lab.now);
	// one report is half a second old
	expect_share(&lab, 1, 18.0 / 3 / lab.lab.segment->workers);
	lab.now += 3 * LAB_SECOND;
	report(&lab, 0, 16);
	weir_estimates_second(lab.estimates, lab.now);
	// the report of this backend is too old, so it gets the mean of the shares
	expect_share(&lab, 1, 18.0 / 3 / lab.lab.segment->workers);
	lab.now += 30 * LAB_SECOND;
	weir_estimates_second(lab.estimates, lab.now);
	for (uint16_t id = 0; id < BACKENDS; id++) {
		assert_int_equal(lab_cost(&lab, id), 0);
	}
	estimates_lab_close(&lab);
}

TEST(errors_are_added) {
	const struct weir_report failing = {.given = WEIR_REPORT(ACTIVE) | WEIR_REPORT(ERRORS),
		.active_requests = 16,
		.errors_per_second = 100};
	struct estimates_lab lab;
	char why[256];

	open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
	run(&lab, 40);
	lab.now += LAB_SECOND / 10;
	weir_estimates_report(lab.estimates, 2, &failing, lab.now, why, sizeof(why));
	lab.now += LAB_SECOND / 2;
	weir_estimates_report(lab.estimates, 2, &failing, lab.now, why, sizeof(why));
	assert_in_range(weir_signal_share_errors(lab_cost(&lab, 2)), 15, 50);
	lab.now += LAB_SECOND * 31 / 10; // reports are too old, so only the errors count
	weir_estimates_second(lab.estimates, lab.now);
	assert_in_range(weir_signal_errors(lab_cost(&lab, 2)), 1, 50);
	estimates_lab_close(&lab);
}

TEST(other_policies_and_other_processes_find_none) {
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
	run(&lab, 40);
	lab.config->services[0].policy.name = WEIR_POLICY_FAIR_SHARE;
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	lab.config->services[0].policy.name = WEIR_POLICY_LEAST_LOADED;
	lab_apply_follow(&lab);
	run(&lab, 40);
	expect_share(&lab, 0, 20.0 / 3 / lab.lab.segment->workers);
	lab.config->services[0].policy.name = WEIR_POLICY_WEIGHTED_ROUND_ROBIN;
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	lab.config->services[0].policy.name = WEIR_POLICY_LEAST_LOADED;
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_CONFIGURED;
	lab_apply_follow(&lab);
	run(&lab, 40);
	expect_share(&lab, 0, 20.0 / 3 / lab.lab.segment->workers);
	lab.config->services[0].policy.name = WEIR_POLICY_RANDOM;
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0);
	lab.config->services[0].policy.name = WEIR_POLICY_LEAST_LOADED;
	lab_apply_follow(&lab);
	run(&lab, 40);
	weir_estimates_free(lab.estimates);
	assert_int_equal(weir_estimates_create(&lab.estimates), 0);
	lab_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}

TEST(without_a_dataplane_reports_are_compared_with_nothing) {
	struct estimates_lab lab;

	open_lab(&lab, WEIR_POLICY_LEAST_LOADED);
	assert_int_equal(weir_tables_rebind(lab.lab.tables, NULL), 0);
	for (uint32_t i = 0; i < 10; i++) {
		report(&lab, 0, 5);
		weir_estimates_second(lab.estimates, lab.now);
	}
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}
