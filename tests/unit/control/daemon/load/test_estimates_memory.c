// SPDX-License-Identifier: BSD-3-Clause
//
// Tests estimates when no memory is available. Each allocation for a new configuration, and for
// new samples, fails in turn. Some estimates may then be missing until the next attempt, but
// there must be no other errors.
#include <string.h>

#include "estimates_lab.h"
#include "starved.h"

#define SERVICES 5
#define SERVICE_OF_TIMES 3 // the service with fair-share in round 0
#define BACKENDS 20 // more backends than the first allocation of a service has room for
// minimum number of allocations of a configuration; with fewer, the test has not counted them
#define LEAST 20

static void set_policies(struct estimates_lab *lab, uint32_t turn) {
	static const enum weir_policy policies[SERVICES] = {WEIR_POLICY_LEAST_LOADED,
		WEIR_POLICY_WEIGHTED_ROUND_ROBIN, WEIR_POLICY_WEIGHTED_ROUND_ROBIN,
		WEIR_POLICY_FAIR_SHARE, WEIR_POLICY_PREQUAL};

	for (uint32_t i = 0; i < SERVICES; i++) {
		struct weir_config_policy *policy = &lab->config->services[i].policy;
		uint32_t at = (i + turn) % SERVICES;

		policy->name = policies[at];
		policy->weights = at == 1   ? WEIR_WEIGHTS_REPORTED
				  : at == 2 ? WEIR_WEIGHTS_BALANCED
					    : WEIR_WEIGHTS_CONFIGURED;
		policy->statistic = turn % 2 == 0 ? WEIR_STATISTIC_MEDIAN : WEIR_STATISTIC_AVERAGE;
	}
	lab_apply(&lab->lab, lab->config);
}

// Call all functions that read the current state.
static void use(struct estimates_lab *lab) {
	const struct weir_report report = {
		.given = WEIR_REPORT(UTILIZATION) | WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) |
			 WEIR_REPORT(ACTIVE) | WEIR_REPORT(SERVICE_TIME) |
			 WEIR_REPORT(SERVICE_COUNT),
		.utilization = 0.5,
		.requests_per_second = 10,
		.errors_per_second = 1,
		.active_requests = 3,
		.service_time_ms = 7,
		.service_count = 2};
	char why[256];

	for (uint16_t id = 0; id < SERVICES * BACKENDS; id++) {
		lab_sample(lab, 0, id, 5 * LAB_MS);
		weir_estimates_report(lab->estimates, id, &report, lab->now, why, sizeof(why));
	}
	lab_collect(lab);
	for (int i = 0; i < 3; i++) {
		lab->now += LAB_SECOND;
		weir_estimates_second(lab->estimates, lab->now);
	}
}

TEST(each_failed_allocation_is_survived) {
	struct weir_estimates_extent all;
	struct estimates_lab lab;
	long n = 0;
	int r;

	estimates_lab_open(&lab, SERVICES, BACKENDS);
	set_policies(&lab, 0);
	lab_follow(&lab);
	use(&lab);
	all = weir_estimates_extent(lab.estimates);
	assert_int_equal(all.services, SERVICES);
	do {
		set_policies(&lab, (uint32_t)n + 1);
		starved_after(n++);
		r = weir_estimates_follow(lab.estimates, lab.lab.tables, lab.config, lab.now);
		starved_after(-1);
		use(&lab);
		lab_follow(&lab);
		use(&lab);
		assert_int_equal(weir_estimates_extent(lab.estimates).services, all.services);
	} while (r < 0);
	assert_true(n > LEAST);
	estimates_lab_close(&lab);
}

// Without memory for its statistics, a sample is lost. The next sample is used, because memory is
// available again.
TEST(failed_allocation_at_a_sample_is_survived) {
	struct estimates_lab lab;

	for (long n = 0; n < 2 * BACKENDS; n++) {
		estimates_lab_open(&lab, SERVICES, BACKENDS);
		set_policies(&lab, 0);
		lab_follow(&lab);
		starved_after(n);
		use(&lab);
		starved_after(-1);
		assert_true(
			weir_estimates_backend(lab.estimates, SERVICE_OF_TIMES * BACKENDS, lab.now)
				.collected);
		use(&lab);
		for (uint32_t i = 0; i < BACKENDS; i++) {
			assert_true(lab_cost(&lab, (uint16_t)(SERVICE_OF_TIMES * BACKENDS + i)) >=
				    5 * LAB_MS);
		}
		estimates_lab_close(&lab);
	}
}
