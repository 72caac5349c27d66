// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which services have estimates, and what happens to the estimates when the tables, the owner
// of an id, or the control process changes.
#include "backend_signal.h"
#include "estimates_lab.h"

#include <string.h>
#include <time.h>

// Guarantee of estimates.h: no measurements are collected for a service whose policy does not
// need them.
TEST(nothing_is_collected_for_policies_that_need_nothing) {
	static const enum weir_policy policies[] = {WEIR_POLICY_MAGLEV, WEIR_POLICY_ROUND_ROBIN,
		WEIR_POLICY_WEIGHTED_ROUND_ROBIN, WEIR_POLICY_RANDOM};

	for (size_t i = 0; i < sizeof(policies) / sizeof(policies[0]); i++) {
		struct weir_estimates_extent extent;
		struct estimates_lab lab;

		estimates_lab_open(&lab, 3, 4);
		for (uint32_t s = 0; s < 3; s++) {
			lab_policy(&lab, s, policies[i]);
		}
		lab_apply_follow(&lab);
		assert_false(weir_estimates_measures(lab.estimates));
		assert_true(lab_sample(&lab, 0, 0, 5 * LAB_MS));
		lab_collect(&lab);
		assert_false(weir_estimates_second(lab.estimates, lab.now + LAB_SECOND));
		extent = weir_estimates_extent(lab.estimates);
		assert_int_equal(extent.services, 0);
		assert_int_equal(extent.backends, 0);
		assert_int_equal(extent.samples, 0);
		assert_int_equal(lab_waiting(&lab, 0), 1);
		assert_int_equal(lab_cost(&lab, 0), 0);
		assert_false(weir_estimates_backend(lab.estimates, 0, lab.now).collected);
		estimates_lab_close(&lab);
	}
}

// One service needs costs. Costs of the other services are not collected.
TEST(only_services_that_need_estimates_have_them) {
	struct weir_estimates_extent extent;
	struct estimates_lab lab;

	estimates_lab_open(&lab, 3, 2);
	lab_policy(&lab, 1, WEIR_POLICY_FAIR_SHARE);
	// this policy needs the mean service time, because its error window is automatic
	lab_policy(&lab, 2, WEIR_POLICY_LEAST_LOADED);
	lab_apply_follow(&lab);
	assert_true(weir_estimates_measures(lab.estimates));
	extent = weir_estimates_extent(lab.estimates);
	assert_int_equal(extent.services, 2);
	assert_int_equal(extent.backends, 2); // for s1 each backend, for s2 only the total
	assert_true(weir_estimates_backend(lab.estimates, 2, lab.now).collected);
	assert_false(weir_estimates_backend(lab.estimates, 0, lab.now).collected);
	assert_false(weir_estimates_backend(lab.estimates, 4, lab.now).collected);
	lab.config->services[2].policy.error_window_ms = 5000;
	lab_policy(&lab, 1, WEIR_POLICY_MAGLEV);
	lab_apply_follow(&lab);
	assert_int_equal(weir_estimates_extent(lab.estimates).services, 1); // for reported errors
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0); // no errors so far
	lab_policy(&lab, 2, WEIR_POLICY_RANDOM);
	lab.config->services[2].policy.error_window_ms = 0;
	lab_apply_follow(&lab);
	assert_int_equal(weir_estimates_extent(lab.estimates).services, 0);
	assert_false(weir_estimates_measures(lab.estimates));
	estimates_lab_close(&lab);
}

// The policy uses service times that backends report, so workers do not measure them.
TEST(reported_times_are_not_measured) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab_apply_follow(&lab);
	assert_false(weir_estimates_measures(lab.estimates));
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 2);
	estimates_lab_close(&lab);
}

TEST(costs_are_cleared_when_unneeded) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 4 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 4 * LAB_MS);
	// a backend without a known cost gets the mean of the known costs
	assert_int_equal(lab_cost(&lab, 1), 4 * LAB_MS);
	lab_policy(&lab, 0, WEIR_POLICY_ROUND_ROBIN);
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	assert_int_equal(lab_cost(&lab, 1), 0);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}

// A policy that was set at run time has estimates like a configured policy.
TEST(run_time_policy_is_used) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_apply_follow(&lab);
	assert_int_equal(
		weir_tables_set_policy(lab.lab.tables, 0, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN),
		0);
	lab_follow(&lab);
	assert_true(weir_estimates_measures(lab.estimates));
	assert_int_equal(weir_tables_set_policy(lab.lab.tables, 0, WEIR_POLICY_UNSET), 0);
	lab_follow(&lab);
	assert_false(weir_estimates_measures(lab.estimates));
	estimates_lab_close(&lab);
}

// A sample that was written before estimates were needed is not used.
TEST(old_samples_are_skipped) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_sample(&lab, 1, 0, 9 * LAB_SECOND);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	assert_int_equal(lab_waiting(&lab, 1), 0);
	lab_collect(&lab);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 0);
	estimates_lab_close(&lab);
}

// The id of a removed backend is reused for a new backend. The new backend starts without
// history. Samples that are still in the ring belong to the removed backend.
TEST(new_owner_of_an_id_starts_without_history) {
	struct estimates_lab lab;
	struct weir_estimate estimate;

	estimates_lab_open(&lab, 1, 3);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	for (uint16_t id = 0; id < 3; id++) {
		lab_sample(&lab, 0, id, (id + 1) * 10 * LAB_MS);
	}
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 2), 30 * LAB_MS);
	lab_remove_backend(lab.config, 0, 2);
	lab_apply_follow(&lab);
	lab_settle(&lab.lab);
	assert_int_equal(lab_cost(&lab, 2), 0);
	lab_sample(&lab, 0, 2, 77 * LAB_MS); // a late sample
	lab.config->services[0].backend_count = 3;
	strcpy(lab.config->services[0].backends[2].name, "new");
	lab.config->services[0].backends[2].address.bytes[3] = 99;
	lab_apply_follow(&lab);
	assert_int_equal(lab_id(&lab.lab, "s0", "new"), 2);
	estimate = weir_estimates_backend(lab.estimates, 2, lab.now);
	assert_true(estimate.collected);
	assert_int_equal(estimate.samples, 0);
	assert_int_equal(estimate.service_ns, 0);
	assert_int_equal(lab_cost(&lab, 2), 15 * LAB_MS); // mean of 10 and 20
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 1);
	estimates_lab_close(&lab);
}

// A new control process starts with the existing costs. They are used until they are stale, or
// until newer costs exist.
TEST(costs_of_the_previous_process_are_kept) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.stale_ms = 60000;
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_sample(&lab, 0, 1, 30 * LAB_MS);
	lab_collect(&lab);
	weir_estimates_free(lab.estimates);
	lab_restart(&lab.lab);
	assert_int_equal(weir_estimates_create(&lab.estimates), 0);
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 10 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 1), 30 * LAB_MS);
	lab_sample(&lab, 0, 0, 50 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 50 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 1), 30 * LAB_MS);
	lab.now += 59 * LAB_SECOND;
	lab_sample(&lab, 0, 0, 50 * LAB_MS);
	lab_collect(&lab);
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 1), 30 * LAB_MS);
	lab.now += 2 * LAB_SECOND;
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 1), 50 * LAB_MS);
	estimates_lab_close(&lab);
}

// The former process left costs that no policy needs. They are cleared, so that a later policy does
// not use them.
TEST(unneeded_costs_of_the_previous_process_are_cleared) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	assert_int_equal(weir_writer_reserve(weir_tables_writer(lab.lab.tables), 1, 501), 0);
	lab.lab.control->costs[1] = 5;
	lab.lab.control->costs[500] = 5;
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 1), 0);
	assert_int_equal(lab_cost(&lab, 500), 0);
	estimates_lab_close(&lab);
}

// The dataplane is restarted. The estimates stay, and are written to its new segment at once.
TEST(estimates_survive_a_restart_of_the_dataplane) {
	struct weir_segment *segment = lab_segment(NULL), *second = lab_attach(segment);
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_sample(&lab, 0, 1, 30 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(weir_tables_rebind(lab.lab.tables, NULL), 0);
	lab_collect(&lab); // without a dataplane
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(weir_tables_rebind(lab.lab.tables, second), 0);
	lab_apply_follow(&lab);
	assert_int_equal(second->costs[0], 10 * LAB_MS);
	assert_int_equal(second->costs[1], 30 * LAB_MS);
	assert_int_equal(weir_estimates_backend(lab.estimates, 1, lab.now).samples, 1);
	assert_int_equal(weir_tables_rebind(lab.lab.tables, NULL), 0);
	weir_segment_free(second);
	weir_segment_free(segment);
	estimates_lab_close(&lab);
}

// A change of the window or of the statistic discards the collected samples, but the cost stays
// until there are new samples. A change of service_time also discards the cost.
TEST(change_of_settings) {
	struct weir_config_policy *policy;
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	policy = &lab.config->services[0].policy;
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_collect(&lab);
	policy->statistic = WEIR_STATISTIC_MEDIAN;
	policy->window = 3;
	lab_apply_follow(&lab);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 0);
	assert_int_equal(lab_cost(&lab, 0), 10 * LAB_MS);
	for (uint64_t i = 1; i <= 5; i++) { // the window holds 3, 40 and 5 ms
		lab_sample(&lab, 0, 0, (i == 4 ? 40 : i) * LAB_MS);
	}
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 5 * LAB_MS);
	policy->stale_ms = 1000; // this change does not restart collection
	lab_apply_follow(&lab);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 5);
	policy->service_time = WEIR_SERVICE_TIME_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}

// The new policy of a service needs no costs. Samples from before the change must not write
// costs, because costs are no longer maintained.
TEST(policy_that_needs_less_takes_effect) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_policy(&lab, 0, WEIR_POLICY_LEAST_LOADED);
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_collect(&lab);
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 0);
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0);
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	lab_sample(&lab, 0, 1, 20 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 20 * LAB_MS);
	estimates_lab_close(&lab);
}

// The policy of a service changes from each policy to each other policy, with samples and reports
// before and after the change.
TEST(every_change_of_policy) {
	struct estimates_lab lab;
	struct weir_report report = {.given = WEIR_REPORT_ALL,
		.service_time_ms = 1,
		.service_count = 1,
		.service_median_ms = 1,
		.busy_time_ms = 1,
		.busy_count = 1,
		.requests_per_second = 1,
		.utilization = 1};
	char why[256];

	estimates_lab_open(&lab, 2, 2);
	for (uint32_t i = 0; i < 2 * WEIR_POLICY_COUNT * WEIR_POLICY_COUNT; i++) {
		struct weir_config_policy *policy = &lab.config->services[0].policy;
		uint32_t turn = i / 2;
		bool reported = i % 2;

		policy->name = (enum weir_policy)(turn % WEIR_POLICY_COUNT);
		policy->weights = reported && policy->name == WEIR_POLICY_WEIGHTED_ROUND_ROBIN
					  ? WEIR_WEIGHTS_REPORTED
					  : WEIR_WEIGHTS_CONFIGURED;
		policy->service_time =
			reported ? WEIR_SERVICE_TIME_REPORTED : WEIR_SERVICE_TIME_FLOW;
		lab_policy(&lab, 1, (enum weir_policy)(turn / WEIR_POLICY_COUNT));
		lab_apply_follow(&lab);
		for (uint16_t id = 0; id < 4; id++) {
			lab_sample(&lab, 0, id, LAB_MS);
			weir_estimates_report(
				lab.estimates, id, &report, lab.now, why, sizeof(why));
			lab_collect(&lab);
			lab_sample(&lab, 1, id, LAB_MS);
		}
		lab.now += LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
		for (uint16_t id = 0; id < 4; id++) {
			uint8_t needs = weir_policy_needs(lab.config->services[id / 2].policy.name);

			assert_int_equal(weir_signal_is_probe(lab_cost(&lab, id)),
				(needs & WEIR_NEEDS_PROBES) != 0);
			assert_int_equal(weir_signal_cost(lab_cost(&lab, id)),
				(needs & WEIR_NEEDS_COST) != 0 ? LAB_MS : 0);
		}
	}
	estimates_lab_close(&lab);
}

// Returns the CPU time for removing all services except one. Each service has four backends.
static double remove_s(uint32_t services) {
	const struct lab_room room = {
		.max_services = services, .max_backends = 4 * services, .heap_bytes = 512 << 20};
	struct estimates_lab lab;
	clock_t began;

	estimates_lab_open_large(&lab, &room, services, 4);
	for (uint32_t s = 0; s < services; s++) {
		lab_policy(&lab, s, WEIR_POLICY_FAIR_SHARE);
	}
	lab_apply_follow(&lab);
	assert_int_equal(weir_estimates_extent(lab.estimates).services, services);
	for (uint32_t s = 1; s < services; s++) {
		lab_policy(&lab, s, WEIR_POLICY_RANDOM);
	}
	lab_apply(&lab.lab, lab.config);
	began = clock();
	lab_follow(&lab);
	began = clock() - began;
	assert_int_equal(weir_estimates_extent(lab.estimates).services, 1);
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 4);
	estimates_lab_close(&lab);
	return (double)began / CLOCKS_PER_SEC;
}

TEST(removal_of_services_takes_linear_time) {
	double few = remove_s(256), many = remove_s(4096);

	assert_true(many < 96 * few); // factor 16 if linear, 256 if quadratic
}

TEST(free_of_null) {
	struct weir_estimates *estimates;

	weir_estimates_free(NULL);
	assert_int_equal(weir_estimates_create(&estimates), 0);
	weir_estimates_collect(estimates, 1);
	assert_false(weir_estimates_second(estimates, 1));
	assert_false(weir_estimates_backend(estimates, 7, 1).collected);
	weir_estimates_free(estimates);
}
