// SPDX-License-Identifier: BSD-3-Clause
//
// The data that control publishes in a simulation: weights, limits and estimates. The tests check
// their effects.
#include <stdio.h>

#include "sim_lab.h"

#define BASE \
	"'name': 'x', 'title': '', 'duration_ms': 100000, 'warmup_ms': 10000, 'cost': " \
	"{'mean_ms': 2}," \
	"'clients': {'count': 2, 'requests_per_second': 600}"

// Runs a simulation, and returns each backend's share of the requests.
static void find_shares(const char *more, double share[3]) {
	char text[1024];
	struct weir_sim_result *result;

	snprintf(text, sizeof(text), "{" BASE ", %s}", more);
	result = lab_try(text);
	for (int i = 0; i < 3; i++) {
		share[i] = (double)result->measure[0].backend[i].requests /
			   (double)result->measure[0].totals.arrived;
	}
	weir_sim_result_free(result);
}

static void check_shares(
	const char *policy, const char *weights, const double *wanted, double tolerance) {
	char more[512];
	double share[3];

	snprintf(more, sizeof(more),
		"'policy': {%s}, 'backends': {'count': 3, 'cores': 2, 'weights': [%s]}", policy,
		weights);
	find_shares(more, share);
	for (int i = 0; i < 3; i++) {
		lab_near(share[i], wanted[i], tolerance);
	}
}

TEST(table_weights_give_shares) {
	const double by_weight[] = {1 / 6.0, 2 / 6.0, 3 / 6.0};
	const double equal[] = {1 / 3.0, 1 / 3.0, 1 / 3.0};
	const double documented[] = {1 / 10.0, 3 / 10.0, 6 / 10.0};

	check_shares("'name': 'weighted-round-robin'", "100, 200, 300", by_weight, 0.01);
	check_shares("'name': 'maglev'", "100, 200, 300", by_weight, 0.02);
	check_shares("'name': 'time-weighted-round-robin', 'measurement': 'busy'", "100, 200, 300",
		by_weight, 0.02);
	check_shares("'name': 'interleaved-weighted-round-robin', 'measurement': 'busy'",
		"100, 200, 300", by_weight, 0.02);
	// With the documented rounds, the shares of the backends are in the ratio of 100 to
	// 100 + 200 to 100 + 200 + 300.
	check_shares("'name': 'interleaved-weighted-round-robin', 'measurement': 'busy',"
		     "'rounds': 'documented'",
		"100, 200, 300", documented, 0.05);
	check_shares("'name': 'round-robin'", "100, 200, 300", equal, 0.01);
	check_shares("'name': 'random'", "100, 200, 300", equal, 0.02);
}

// If CPU time is measured, a backend with half the speed gets half as many requests.
TEST(table_estimates_reach_the_policy) {
	const char *form = "'policy': {'name': 'time-weighted-round-robin', 'measurement': '%s',"
			   "'statistic': '%s'}, 'control': {'statistics': '%s'},"
			   "'wait': {'mean_ms': 100},"
			   "'backends': {'count': 3, 'cores': 4, 'speeds': [0.5, 1, 1],"
			   " 'weights': [200]}";
	static const char *const statistic[] = {"average", "median"};
	static const char *const scope[] = {"client", "fleet"};
	char more[512];
	double share[3];

	for (int i = 0; i < 4; i++) {
		snprintf(more, sizeof(more), form, "busy", statistic[i % 2], scope[i / 2]);
		find_shares(more, share);
		lab_near(share[0], 0.2, 0.05);
	}
	// Execution times of 104 and 102 ms hardly differ.
	snprintf(more, sizeof(more), form, "execution", "average", "client");
	find_shares(more, share);
	lab_near(share[0], 0.33, 0.05);
}

static void check_limit(const char *when, uint64_t *spilled, uint64_t *rejected) {
	char text[1024];
	struct weir_sim_result *result;

	snprintf(text, sizeof(text),
		"{'name': 'x', 'title': '', 'duration_ms': 20000, 'cost': {'mean_ms': 1},"
		"'wait': {'mean_ms': 1000}, 'backends': {'count': 4},"
		"'clients': {'count': 1, 'requests_per_second': 100, 'arrivals': 'even'},"
		"'flow_control': {'max_active_flows': 20, 'when_exhausted': '%s'}}",
		when);
	result = lab_try(text);
	*spilled = result->totals.spilled;
	*rejected = result->totals.ended[WEIR_SIM_REJECTED];
	weir_sim_result_free(result);
}

// There are 100 requests per second, and each takes a second. At most 4 * 20 requests may be in
// progress, so a fifth of the requests exceeds the limit.
TEST(table_limit_spills_or_rejects) {
	uint64_t spilled, rejected;

	check_limit("reject", &spilled, &rejected);
	assert_int_equal(spilled, 0);
	lab_near((double)rejected, 400, 0.07);
	check_limit("spill", &spilled, &rejected);
	assert_int_equal(rejected, 0);
	// All requests except the first 80 exceed the limit.
	assert_true(spilled > 1500);
}

static double mean_ms(const char *more) {
	char text[1024];
	struct weir_sim_result *result;
	double ms;

	snprintf(text, sizeof(text),
		"{'name': 'x', 'title': '', 'duration_ms': 60000, 'warmup_ms': 10000,"
		"'clients': {'count': 16, 'load_percent': 80},"
		"'backends': {'count': 6, 'cores': 2, 'scheduling': 'sharing'},"
		"'cost': {'distribution': 'exponential', 'mean_ms': 500},"
		"'policy': {'name': 'least-loaded'}, %s}",
		more);
	result = lab_try(text);
	ms = result->measure[0].mean_ms;
	weir_sim_result_free(result);
	return ms;
}

TEST(table_shares_of_reported_requests_reach_the_policy) {
	const double own = mean_ms("'reports': {'interval_ms': 100}");
	const double shares = mean_ms("'reports': {'interval_ms': 100, 'active': true}");
	const double lost = mean_ms("'reports': {'active': true, 'loss_percent': 100}");

	assert_true(shares < 0.85 * own);
	lab_near(lost, own, 0.001);
}
