// SPDX-License-Identifier: BSD-3-Clause
//
// Clients of a simulation: when their requests arrive, and how control changes their subsets.
#include <math.h>
#include <stdio.h>

#include "sim_lab.h"

#define TEN_BACKENDS "'backends': {'count': 10, 'cores': 1}, 'cost': {'mean_ms': 1}"

static void check_rate(const char *clients, double wanted, double tolerance) {
	char text[1024];
	struct weir_sim_result *result;

	snprintf(text, sizeof(text),
		"{'name': 'x', 'title': '', 'duration_ms': 200000, " TEN_BACKENDS
		", 'clients': {'count': 20, 'requests_per_second': 1000, %s}}",
		clients);
	result = lab_try(text);
	lab_near((double)result->totals.arrived, wanted, tolerance);
	weir_sim_result_free(result);
}

TEST(client_rates_add_up_for_every_kind_of_arrivals) {
	check_rate("'arrivals': 'even'", 200000, 0.0002);
	check_rate("'arrivals': 'poisson'", 200000, 0.01);
	check_rate("'arrivals': 'poisson', 'rate_sigma': 1", 200000, 0.01);
	check_rate("'arrivals': 'bursty', 'on_ms': 200, 'off_ms': 800", 200000, 0.05);
}

// Returns the index of dispersion of the arrivals per sample: 0 for even arrivals, 1 for Poisson
// arrivals, more for bursts.
static double dispersion(const char *arrivals) {
	char text[1024];
	struct weir_sim_result *result;
	double sum = 0, squares = 0, mean, variance;

	snprintf(text, sizeof(text),
		"{'name': 'x', 'title': '', 'duration_ms': 200000, 'sample_ms': 100, " TEN_BACKENDS
		", 'clients': {'count': 1, 'requests_per_second': 500, 'arrivals': '%s'}}",
		arrivals);
	result = lab_try(text);
	for (uint32_t i = 0; i < result->samples; i++) {
		double arrived = (double)result->sample[i].totals.arrived;

		sum += arrived;
		squares += arrived * arrived;
	}
	mean = sum / result->samples;
	variance = squares / result->samples - mean * mean;
	weir_sim_result_free(result);
	return variance / mean;
}

TEST(client_arrivals_vary_as_configured) {
	assert_true(dispersion("even") < 0.02);
	lab_near(dispersion("poisson"), 1.0, 0.1);
	assert_true(dispersion("bursty") > 10);
}

TEST(client_rate_sigma_makes_clients_uneven) {
	struct weir_sim_result *result = lab_try(
		"{'name': 'x', 'title': '', 'duration_ms': 50000, 'backends': {'count': 40},"
		"'cost': {'mean_ms': 1}, 'subset': {'algorithm': 'deterministic', 'size': 1},"
		"'clients': {'count': 40, 'requests_per_second': 4000, 'rate_sigma': 0.5}}");
	double sum = 0, squares = 0;

	// Each backend has one client, so its number of requests shows the rate of this client.
	for (uint32_t i = 0; i < 40; i++) {
		double rate = log((double)result->measure[0].backend[i].requests);

		sum += rate;
		squares += rate * rate;
	}
	sum /= 40;
	lab_near(sqrt(squares / 40 - sum * sum), 0.5, 0.25);
	weir_sim_result_free(result);
}

TEST(client_subsets_equal_those_of_the_policy_code) {
	struct weir_sim_result *result =
		lab_try("{'name': 'x', 'title': '', 'duration_ms': 100, 'backends': {'count': 300},"
			"'cost': {'mean_ms': 1},"
			"'subset': {'algorithm': 'random', 'size': 90, 'salt': 8985},"
			"'clients': {'count': 300, 'requests_per_second': 100}}");

	// The numbers are from the SRE book.
	assert_int_equal(result->measure[0].clients_min, 57);
	assert_int_equal(result->measure[0].clients_max, 109);
	weir_sim_result_free(result);
}

#define RESTARTS \
	"{'name': 'x', 'title': '', 'duration_ms': 60000, 'backends': {'count': 30}," \
	"'cost': {'mean_ms': 5}, 'subset': {'algorithm': 'deterministic', 'size': 5}," \
	"'clients': {'count': 12, 'requests_per_second': 500}, 'policy': {'name': '%s'}," \
	"'control': {'announce_ms': 100, 'recovery_ms': 100}," \
	"'windows': [{'name': 'before', 'from_ms': 0, 'to_ms': 5000}," \
	" {'name': 'during', 'from_ms': 6000, 'to_ms': 20000}," \
	" {'name': 'after', 'from_ms': 50000, 'to_ms': 60000}]," \
	"'events': [{'event': 'restart', 'at_ms': 6000, 'count': 30, 'every_ms': 1000," \
	" 'drain_ms': 1500, 'down_ms': 1500}]}"

// The guarantees U2 and U3 of subset.h hold for every policy, although backends get different
// slots.
TEST(client_subsets_are_restored_after_a_rolling_restart) {
	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		char text[2048];
		struct weir_sim_result *result;
		uint32_t during = 0;

		snprintf(text, sizeof(text), RESTARTS, weir_policy_name((enum weir_policy)policy));
		result = lab_try(text);
		for (uint32_t i = 0; i < 30; i++) {
			assert_int_equal(result->measure[2].backend[i].clients,
				result->measure[0].backend[i].clients);
			assert_int_equal(result->measure[0].backend[i].clients, 2);
			during += result->measure[1].backend[i].clients;
		}
		assert_int_equal(during, 12 * 5); // no client had fewer than five members
		// No request was lost, because the backends drained long enough.
		assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
		assert_int_equal(result->totals.arrived, lab_accounted(result));
		weir_sim_result_free(result);
	}
}
