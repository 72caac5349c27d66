// SPDX-License-Identifier: BSD-3-Clause
//
// Capability: cases that are not in the recorded vectors. replay-vectors tests the recorded
// vectors.
#include <math.h>
#include <stdlib.h>

#include "capability.h"
#include "test.h"

#define S UINT64_C(1000000000)

static struct weir_capability_settings plain(void) {
	struct weir_capability_settings settings = weir_capability_defaults();

	settings.smoothing_ns = 0;
	return settings;
}

static struct weir_capability_report report(double rate, double errors, double load) {
	return (struct weir_capability_report){rate, errors, load};
}

static double add(struct weir_capability *capability,
	const struct weir_capability_settings *settings, double rate, double errors, double load,
	uint64_t now_ns) {
	const struct weir_capability_report sent = report(rate, errors, load);

	return weir_capability_add(capability, settings, &sent, now_ns);
}

static void check(double expected, double got) {
	if (fabs(expected - got) > 1e-9 * fmax(1, fabs(expected))) {
		fail_msg("expected %.12g, got %.12g", expected, got);
	}
}

// All requests fail, and cost nothing. gRPC would keep the last good weight for three minutes. Weir
// lowers the weight at once.
TEST(backend_that_fails_everything_at_no_cost_is_penalised) {
	struct weir_capability_settings settings = plain();
	struct weir_capability ours = {0}, theirs = {0};

	check(200, add(&ours, &settings, 100, 0, 0.5, 0));
	check(100, add(&ours, &settings, 100, 100, 0, 11 * S));
	check(100, weir_capability_read(&ours, &settings, 11 * S));
	settings.grpc_order = true;
	check(200, add(&theirs, &settings, 100, 0, 0.5, 0));
	check(0, add(&theirs, &settings, 100, 100, 0, 11 * S));
	check(200, weir_capability_read(&theirs, &settings, 11 * S));
}

// In the SRE book, the numerator of a weight is the rate of successful requests. In gRPC, it is the
// rate of all requests.
TEST(only_successful_requests_may_count) {
	struct weir_capability_settings settings = plain();
	const struct weir_capability_report half = report(100, 50, 0.5);
	const struct weir_capability_report none = report(100, 0, 0.5);
	const struct weir_capability_report all = report(100, 100, 0.5);
	const struct weir_capability_report more = report(100, 300, 0.5);

	check(100, weir_capability_weight(&settings, &half));
	settings.successful = true;
	check(200, weir_capability_weight(&settings, &none)); // the weight without errors
	check(50, weir_capability_weight(&settings, &half));
	// If all requests fail, a hundredth of their rate is used, so that the weight is not
	// "unknown".
	check(1 / 1.5, weir_capability_weight(&settings, &all));
	check(1 / 3.5, weir_capability_weight(&settings, &more));
	settings.penalty = 0;
	check(100, weir_capability_weight(&settings, &half));
}

// A changed setting applies to earlier reports, without a new report.
TEST(settings_may_change_between_reports) {
	struct weir_capability_settings settings = plain();
	struct weir_capability capability = {0};

	add(&capability, &settings, 100, 50, 0.5, 0);
	check(100, add(&capability, &settings, 100, 50, 0.5, 10 * S));
	check(100, weir_capability_read(&capability, &settings, 11 * S));
	settings.penalty = 3;
	check(50, weir_capability_read(&capability, &settings, 11 * S));
	settings.successful = true;
	check(25, weir_capability_read(&capability, &settings, 11 * S));
	settings.blackout_ns = 12 * S;
	check(0, weir_capability_read(&capability, &settings, 11 * S));
	check(25, weir_capability_read(&capability, &settings, 12 * S));
	settings.expiration_ns = 1 * S;
	check(0, weir_capability_read(&capability, &settings, 12 * S));
}

TEST(unusable_report_changes_nothing) {
	const struct weir_capability_settings settings = plain();
	const double bad[][3] = {{0, 0, 0.5}, {-1, 0, 0.5}, {NAN, 0, 0.5}, {INFINITY, 0, 0.5},
		{100, NAN, 0.5}, {100, -1, 0.5}, {100, INFINITY, 0.5}, {100, 0, NAN},
		{100, 0, INFINITY}, {100, 0, -0.5}, {100, 0, 0}};
	struct weir_capability capability = {0};

	for (unsigned int i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		check(0, add(&capability, &settings, bad[i][0], bad[i][1], bad[i][2], i * S));
	}
	check(0, weir_capability_read(&capability, &settings, 100 * S));
	check(400, add(&capability, &settings, 100, 0, 0.25, 100 * S));
	check(0, add(&capability, &settings, 100, 0, 0, 109 * S));
	check(0, weir_capability_read(&capability, &settings, 110 * S - 1));
	check(400, weir_capability_read(&capability, &settings, 110 * S));
}

TEST(blackout_restarts_after_expiry) {
	const struct weir_capability_settings settings = plain();
	struct weir_capability capability = {0};

	add(&capability, &settings, 100, 0, 0.5, 0);
	check(200, weir_capability_read(&capability, &settings, 180 * S - 1));
	check(0, weir_capability_read(&capability, &settings, 180 * S));
	add(&capability, &settings, 100, 0, 0.25, 200 * S);
	check(0, weir_capability_read(&capability, &settings, 210 * S - 1));
	check(400, weir_capability_read(&capability, &settings, 210 * S));
}

// The weight has expired, and was not read before the next report. gRPC reads the weight once a
// second, and detects the expiry only then.
TEST(expiry_is_noticed_by_the_next_report) {
	struct weir_capability_settings settings = plain();
	struct weir_capability ours = {0}, theirs = {0};

	add(&ours, &settings, 100, 0, 0.5, 0);
	add(&ours, &settings, 100, 0, 0.5, 500 * S);
	check(0, weir_capability_read(&ours, &settings, 501 * S));
	settings.grpc_order = true;
	add(&theirs, &settings, 100, 0, 0.5, 0);
	add(&theirs, &settings, 100, 0, 0.5, 500 * S);
	check(200, weir_capability_read(&theirs, &settings, 501 * S));
}

TEST(ready_backend_starts_again) {
	const struct weir_capability_settings settings = plain();
	struct weir_capability capability = {0};

	add(&capability, &settings, 100, 0, 0.5, 0);
	check(200, weir_capability_read(&capability, &settings, 20 * S));
	weir_capability_ready(&capability);
	check(0, weir_capability_read(&capability, &settings, 21 * S));
	add(&capability, &settings, 100, 0, 0.25, 22 * S);
	check(0, weir_capability_read(&capability, &settings, 31 * S));
	check(400, weir_capability_read(&capability, &settings, 32 * S));
}

TEST(no_blackout_uses_the_first_report) {
	struct weir_capability_settings settings = plain();
	struct weir_capability capability = {0};

	settings.blackout_ns = 0;
	add(&capability, &settings, 100, 0, 0.5, 5 * S);
	check(200, weir_capability_read(&capability, &settings, 5 * S));
}

// After one time constant, the averages have changed by 1 - 1/e of the difference. Rates and
// utilization are averaged, not weights.
TEST(smoothing_averages_rates_and_utilization) {
	const struct weir_capability_settings settings = weir_capability_defaults();
	struct weir_capability capability = {0};
	double share = 1 - exp(-1);

	check(200, add(&capability, &settings, 100, 0, 0.5, 0));
	check((100 + 100 * share) / (0.5 + 0.4 * share),
		add(&capability, &settings, 200, 0, 0.9, 10 * S));
	// Ten steps of a second give the same averages: the length of a step has no effect.
	weir_capability_ready(&capability);
	add(&capability, &settings, 100, 0, 0.5, 0);
	for (uint64_t i = 1; i <= 10; i++) {
		add(&capability, &settings, 200, 0, 0.9, i * S);
	}
	check((100 + 100 * share) / (0.5 + 0.4 * share),
		weir_capability_read(&capability, &settings, 10 * S));
	// A second report at the same time has no effect; after a long time, only the new report
	// counts.
	add(&capability, &settings, 1, 0, 1, 10 * S);
	check((100 + 100 * share) / (0.5 + 0.4 * share),
		weir_capability_read(&capability, &settings, 10 * S));
	check(50, add(&capability, &settings, 50, 0, 1, 1000 * S));
}

TEST(utilization_is_the_first_available_one) {
	const double named[] = {0.2, 0.7, NAN, -1};
	const double none[] = {0, NAN};

	check(0.7, weir_capability_utilization(named, 4, 0.9, 0.8));
	check(0.9, weir_capability_utilization(none, 2, 0.9, 0.8));
	check(0.8, weir_capability_utilization(NULL, 0, 0, 0.8));
	check(0.8, weir_capability_utilization(NULL, 0, NAN, 0.8));
	check(0, weir_capability_utilization(NULL, 0, INFINITY, 0));
}

TEST(unknown_backend_gets_the_mean_weight) {
	const double capabilities[] = {100, 0, 300, NAN};
	uint32_t weights[4] = {0};

	assert_int_equal(weir_capability_weights(capabilities, 4, weights), 2);
	assert_int_equal(weights[1], 2 * (uint64_t)weights[0]);
	assert_int_equal(weights[2], 3 * (uint64_t)weights[0]);
	assert_int_equal(weights[3], weights[1]);
	assert_true(weights[2] >= 1u << 30 && weights[2] < 1u << 31);
}

TEST(configured_weights_stay_when_none_is_known) {
	const double none[] = {0, NAN, -1, INFINITY};
	uint32_t weights[4] = {1, 2, 3, 4};

	assert_int_equal(weir_capability_weights(none, 4, weights), 0);
	for (uint32_t i = 0; i < 4; i++) {
		assert_int_equal(weights[i], i + 1);
	}
}

TEST(weights_of_extreme_capabilities_are_above_0) {
	const double capabilities[] = {1e-300, 1e300, 1e300, 0};
	const double huge[] = {1.7e308, 1.7e308, 0};
	uint32_t weights[4] = {0};

	assert_int_equal(weir_capability_weights(capabilities, 4, weights), 3);
	assert_int_equal(weights[0], 1);
	assert_int_equal(weights[1], weights[2]);
	assert_true(weights[1] >= 1u << 30);
	// the sum of these weights is infinite
	assert_int_equal(weir_capability_weights(huge, 3, weights), 2);
	assert_int_equal(weights[2], weights[0]);
}
