// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the use of reports, and the reasons for which reports are refused.
#include "backend_signal.h"
#include "estimates_lab.h"

#include <errno.h>
#include <string.h>

#define ALL \
	(WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(REQUESTS) | \
		WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION))
#define LOAD (WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(UTILIZATION))

static const struct weir_report everything = {
	.given = ALL,
	.service_time_ms = 12.5,
	.busy_time_ms = 3.25,
	.requests_per_second = 100,
	.errors_per_second = 1,
	.utilization = 0.5,
};

static int give(struct estimates_lab *lab, uint16_t backend, uint32_t given, char *why) {
	struct weir_report report = everything;

	report.given = given;
	why[0] = '\0';
	return weir_estimates_report(lab->estimates, backend, &report, lab->now, why, 256);
}

static void expect_refused(
	struct estimates_lab *lab, uint16_t backend, uint32_t given, const char *reason) {
	char why[256];

	assert_int_equal(give(lab, backend, given, why), -EINVAL);
	if (strstr(why, reason) == NULL) {
		fail_msg("\"%s\" is not in \"%s\"", reason, why);
	}
}

TEST(policies_without_use_for_reports) {
	struct estimates_lab lab;
	char why[256];

	estimates_lab_open(&lab, 3, 1);
	lab_policy(&lab, 0, WEIR_POLICY_ROUND_ROBIN);
	lab_policy(&lab, 1, WEIR_POLICY_LEAST_LOADED);
	lab_policy(&lab, 2, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(&lab);
	expect_refused(&lab, 0, ALL, "does not use reports");
	expect_refused(
		&lab, 1, ALL & ~WEIR_REPORT(ERRORS), "needs active-requests or errors-per-second");
	expect_refused(&lab, 2, ALL & ~WEIR_REPORT(ERRORS), "set \"service_time\" to \"reported\"");
	expect_refused(&lab, 500, ALL, "does not use reports");
	assert_int_equal(give(&lab, 65534, ALL, why), -EINVAL);
	estimates_lab_close(&lab);
}

TEST(service_times) {
	struct estimates_lab lab;
	char why[256];

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(give(&lab, 0, ALL & ~WEIR_REPORT(ERRORS), why), WEIR_REPORT(SERVICE_TIME));
	assert_int_equal(lab_cost(&lab, 0), 12500000);
	assert_int_equal(lab_cost(&lab, 1), 12500000);
	expect_refused(
		&lab, 0, WEIR_REPORT(UTILIZATION) | WEIR_REPORT(BUSY_TIME), "service-time-ms");
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 1);
	lab_sample(&lab, 0, 0, LAB_SECOND); // ignored, as the policy uses reported times
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 12500000);
	estimates_lab_close(&lab);
}

static int give_times(struct estimates_lab *lab, uint32_t given, double ms, double count) {
	struct weir_report report = {.given = given,
		.service_time_ms = ms,
		.service_median_ms = ms / 2,
		.service_count = count,
		.busy_time_ms = ms / 10,
		.busy_count = count};
	char why[256];

	return weir_estimates_report(lab->estimates, 0, &report, lab->now, why, sizeof(why));
}

// A report with the mean time of n requests counts like n reports of one request each.
TEST(means_count_by_their_number_of_requests) {
	const uint32_t both = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT);
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(give_times(&lab, both, 10, 30), both);
	assert_int_equal(give_times(&lab, both, 50, 10), both);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 40);
	assert_int_equal(lab_cost(&lab, 0), 20 * LAB_MS);
	assert_int_equal(give_times(&lab, both, 0, 0), both); // no request since the last report
	assert_int_equal(lab_cost(&lab, 0), 20 * LAB_MS);
	assert_int_equal(give_times(&lab, both, 5, 1e15), both); // values of 5 ms fill the window
	assert_int_equal(lab_cost(&lab, 0), 5 * LAB_MS);
	assert_int_equal(give_times(&lab, WEIR_REPORT(SERVICE_COUNT), 5, 10), -EINVAL);
	estimates_lab_close(&lab);
}

TEST(medians_and_busy_times_with_a_count) {
	const uint32_t all = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) |
			     WEIR_REPORT(SERVICE_MEDIAN) | WEIR_REPORT(BUSY_TIME) |
			     WEIR_REPORT(BUSY_COUNT);
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab.config->services[0].policy.statistic = WEIR_STATISTIC_MEDIAN;
	lab_apply_follow(&lab);
	assert_int_equal(give_times(&lab, all, 10, 30),
		WEIR_REPORT(SERVICE_MEDIAN) | WEIR_REPORT(SERVICE_COUNT));
	assert_int_equal(give_times(&lab, all, 50, 10),
		WEIR_REPORT(SERVICE_MEDIAN) | WEIR_REPORT(SERVICE_COUNT));
	assert_int_equal(lab_cost(&lab, 0), 5 * LAB_MS);
	lab.config->services[0].policy.measurement = WEIR_MEASUREMENT_BUSY;
	lab_apply_follow(&lab);
	assert_int_equal(
		give_times(&lab, all, 10, 30), WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT));
	assert_int_equal(lab_cost(&lab, 0), 1 * LAB_MS);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 30);
	estimates_lab_close(&lab);
}

TEST(busy_times) {
	struct estimates_lab lab;
	char why[256];

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab.config->services[0].policy.measurement = WEIR_MEASUREMENT_BUSY;
	lab_apply_follow(&lab);
	assert_int_equal(give(&lab, 1, ALL & ~WEIR_REPORT(ERRORS), why), WEIR_REPORT(BUSY_TIME));
	assert_int_equal(lab_cost(&lab, 1), 3250000);
	expect_refused(&lab, 1, WEIR_REPORT(SERVICE_TIME), "busy-time-ms");
	estimates_lab_close(&lab);
}

static void give_errors(struct estimates_lab *lab, uint16_t id, double errors) {
	struct weir_report report = {.given = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS),
		.requests_per_second = 100,
		.errors_per_second = errors};
	char why[256];

	assert_true(
		weir_estimates_report(lab->estimates, id, &report, lab->now, why, sizeof(why)) > 0);
}

static void expect_errors(struct estimates_lab *lab, uint16_t id, uint32_t least, uint32_t most) {
	assert_in_range(weir_signal_errors(lab_cost(lab, id)), least, most);
}

// A backend starts to fail. After half a second its errors count as active flows of each of two
// workers. After the last report of errors, the errors expire within the error window.
TEST(errors_count_as_active_flows) {
	static const enum weir_policy policies[] = {
		WEIR_POLICY_LEAST_LOADED, WEIR_POLICY_POWER_OF_TWO};

	for (uint32_t p = 0; p < 2; p++) {
		struct estimates_lab lab;

		estimates_lab_open(&lab, 1, 2);
		lab_policy(&lab, 0, policies[p]);
		lab.config->services[0].policy.error_window_ms = 1000;
		lab_apply_follow(&lab);
		assert_int_equal(weir_estimates_wants(lab.estimates, 0),
			WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE));
		give_errors(&lab, 0, 0);
		assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0);
		lab.now += LAB_SECOND / 2;
		give_errors(&lab, 0, 100);
		expect_errors(&lab, 0, 15, 50);
		for (uint32_t i = 0; i < 10; i++) {
			lab.now += LAB_SECOND / 2;
			give_errors(&lab, 0, 100);
		}
		expect_errors(&lab, 0, 49, 50);
		expect_errors(&lab, 1, 0, 0);
		lab.now += LAB_SECOND * 7 / 4;
		weir_estimates_second(lab.estimates, lab.now);
		expect_errors(&lab, 0, 15, 20);
		lab.now += LAB_SECOND * 5;
		weir_estimates_second(lab.estimates, lab.now);
		assert_int_equal(lab_cost(&lab, 0), 0);
		give_errors(&lab, 0, 100);
		expect_errors(&lab, 0, 20, 60);
		// the new policy does not use costs
		lab.config->services[0].policy.name = WEIR_POLICY_FAIR_SHARE;
		lab.config->services[0].policy.error_window_ms = 0;
		lab_apply_follow(&lab);
		assert_int_equal(weir_signal_errors(lab_cost(&lab, 0)), 0);
		lab.config->services[0].policy.name = WEIR_POLICY_RANDOM;
		lab_apply_follow(&lab);
		assert_int_equal(lab_cost(&lab, 0), 0);
		assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0);
		estimates_lab_close(&lab);
	}
}

// Requests to a backend fail after half a millisecond. The backend must not count as the cheapest
// backend, whether its service time is measured or unknown.
TEST(errors_cost_as_much_as_the_window) {
	static const enum weir_policy policies[] = {WEIR_POLICY_FAIR_SHARE,
		WEIR_POLICY_TIME_WEIGHTED_ROUND_ROBIN,
		WEIR_POLICY_INTERLEAVED_WEIGHTED_ROUND_ROBIN};

	for (uint32_t p = 0; p < 3; p++) {
		struct estimates_lab lab;

		estimates_lab_open(&lab, 1, 4);
		lab_policy(&lab, 0, policies[p]);
		lab_apply_follow(&lab);
		assert_int_equal(weir_estimates_wants(lab.estimates, 0),
			WEIR_REPORT(ERRORS) | WEIR_REPORT(REQUESTS) |
				(policies[p] == WEIR_POLICY_FAIR_SHARE ? WEIR_REPORT(ACTIVE) : 0));
		for (uint32_t i = 0; i < 6; i++) {
			lab.now += LAB_SECOND / 2;
			lab_sample(&lab, 0, 0, LAB_MS / 2);
			lab_sample(&lab, 0, 1, 20 * LAB_MS);
			lab_sample(&lab, 0, 2, 20 * LAB_MS);
			lab_collect(&lab);
			give_errors(&lab, 0, 100);
			give_errors(&lab, 2, 10);
			give_errors(&lab, 3, 100);
		}
		assert_in_range(lab_cost(&lab, 0), 900 * LAB_MS, 1001 * LAB_MS);
		assert_int_equal(lab_cost(&lab, 1), 20 * LAB_MS);
		assert_in_range(lab_cost(&lab, 2), 110 * LAB_MS, 121 * LAB_MS);
		assert_in_range(lab_cost(&lab, 3), 900 * LAB_MS, 1021 * LAB_MS);
		lab.now += 20 * LAB_SECOND;
		weir_estimates_second(lab.estimates, lab.now);
		assert_in_range(lab_cost(&lab, 2), 20 * LAB_MS, 21 * LAB_MS);
		estimates_lab_close(&lab);
	}
}

// The signal is computed from the reported requests in progress and latency, plus the reported
// errors. The signal is withdrawn when reports stop.
TEST(probes) {
	struct weir_report report = {.given = WEIR_REPORT(ACTIVE) | WEIR_REPORT(SERVICE_MEDIAN) |
					      WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(REQUESTS) |
					      WEIR_REPORT(ERRORS),
		.active_requests = 7,
		.service_median_ms = 20,
		.service_count = 10,
		.requests_per_second = 100};
	struct estimates_lab lab;
	char why[256];
	uint64_t word;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_PREQUAL);
	lab_apply_follow(&lab);
	assert_int_equal(
		weir_estimates_report(lab.estimates, 0, &report, lab.now, why, sizeof(why)),
		report.given);
	word = lab_cost(&lab, 0);
	assert_true(weir_signal_is_probe(word));
	assert_int_equal(weir_signal_probe_active(word), 7);
	assert_int_equal(weir_signal_probe_latency(word), 20 * LAB_MS >> 14);
	report.errors_per_second = 100;
	lab.now += LAB_SECOND;
	weir_estimates_report(lab.estimates, 0, &report, lab.now, why, sizeof(why));
	word = lab_cost(&lab, 0);
	assert_true(weir_signal_probe_active(word) > 50);
	assert_true(weir_signal_probe_latency(word) > 500 * LAB_MS >> 14);
	expect_refused(&lab, 1, WEIR_REPORT(UTILIZATION), "needs active-requests");
	// If no request has ended since the last report, the previous latency remains.
	report = (struct weir_report){.given = WEIR_REPORT(ACTIVE), .active_requests = 3};
	lab.now += 60 * LAB_SECOND;
	assert_int_equal(
		weir_estimates_report(lab.estimates, 0, &report, lab.now, why, sizeof(why)),
		report.given);
	word = lab_cost(&lab, 0);
	assert_int_equal(weir_signal_probe_active(word), 3);
	assert_in_range(weir_signal_probe_latency(word), 20 * LAB_MS >> 14, 21 * LAB_MS >> 14);
	// If no request has ever ended, the latency of other backends is used.
	weir_estimates_report(lab.estimates, 1, &report, lab.now, why, sizeof(why));
	assert_int_equal(weir_signal_probe_latency(lab_cost(&lab, 1)), 20 * LAB_MS >> 14);
	lab.now += 11 * LAB_SECOND;
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}

TEST(load) {
	struct weir_report idle = {.given = LOAD, .utilization = 0.1};
	struct estimates_lab lab;
	char why[256];

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_WEIGHTED_ROUND_ROBIN);
	lab.config->services[0].policy.weights = WEIR_WEIGHTS_REPORTED;
	lab_apply_follow(&lab);
	assert_int_equal(give(&lab, 0, ALL, why), LOAD);
	assert_int_equal(give(&lab, 0, LOAD & ~WEIR_REPORT(ERRORS), why),
		WEIR_REPORT(REQUESTS) | WEIR_REPORT(UTILIZATION));
	expect_refused(&lab, 0, WEIR_REPORT(REQUESTS),
		"requests-per-second (above 0) and utilization in each report");
	expect_refused(&lab, 0, WEIR_REPORT(UTILIZATION),
		"requests-per-second (above 0) and utilization in each report");
	expect_refused(&lab, 0, WEIR_REPORT(SERVICE_TIME), "requests-per-second");
	assert_int_equal(
		weir_estimates_report(lab.estimates, 0, &idle, lab.now, why, sizeof(why)), -EINVAL);
	estimates_lab_close(&lab);
}
