// SPDX-License-Identifier: BSD-3-Clause
//
// Backends of a simulation: speeds, antagonists, reports.
#include <stdio.h>

#include "sim_lab.h"

#define CLIENTS "'clients': {'count': 4, 'requests_per_second': 400}"
#define TITLE "'name': 'x', 'title': '', 'duration_ms': 120000, 'warmup_ms': 30000"

TEST(backend_cpu_depends_on_its_speed) {
	struct weir_sim_result *result =
		lab_try("{" TITLE ", " CLIENTS ", 'cost': {'mean_ms': 2},"
			"'backends': {'count': 4, 'cores': 1, 'speeds': [0.5, 1, 2]}}");
	const struct weir_sim_backend_result *backend = result->measure[0].backend;

	// 100 requests per second, of 2 ms each.
	lab_near(backend[0].cpu, 0.4, 0.03);
	lab_near(backend[1].cpu, 0.2, 0.03);
	lab_near(backend[2].cpu, 0.1, 0.03);
	lab_near(backend[3].cpu, 0.4, 0.03);
	assert_true(backend[3].speed == 0.5);
	weir_sim_result_free(result);
}

TEST(backend_antagonists_take_their_share) {
	struct weir_sim_result *result =
		lab_try("{" TITLE ", " CLIENTS ", 'cost': {'mean_ms': 2},"
			"'antagonists': {'interval_ms': 500, 'probability': 0.25, 'slowdown': 0.5},"
			"'backends': {'count': 4, 'cores': 1}}");

	// For a quarter of the time, requests need twice the CPU time: 1.25 * 0.2.
	lab_near(result->measure[0].cpu_mean, 0.25, 0.05);
	weir_sim_result_free(result);
}

// Weights depend on the reports, so the share of a slow backend shows which reports have arrived.
static double share_of_slow(const char *policy, const char *reports, const char *events) {
	char text[1024];
	struct weir_sim_result *result;
	double share;

	snprintf(text, sizeof(text),
		"{" TITLE ", " CLIENTS ", 'cost': {'mean_ms': 2},"
		"'policy': {'name': 'weighted-round-robin', 'weights': 'reported'%s},"
		"'reports': {%s}, 'events': [%s],"
		"'backends': {'count': 4, 'cores': 1, 'speeds': [0.5, 1, 1, 1]}}",
		policy, reports, events);
	result = lab_try(text);
	share = result->measure[0].share;
	weir_sim_result_free(result);
	return share;
}

TEST(backend_reports_lead_to_shares_by_speed) {
	// The backend has speed 0.5 of 3.5 in total. The mean share of the four backends is 1/4.
	lab_near(share_of_slow("", "'interval_ms': 1000", ""), 0.5 * 4 / 3.5, 0.05);
	// If the load is constant, late or lost reports have no effect.
	lab_near(share_of_slow("", "'delay_ms': 7000", ""), 0.5 * 4 / 3.5, 0.05);
	lab_near(share_of_slow("", "'loss_percent': 50", ""), 0.5 * 4 / 3.5, 0.05);
}

TEST(backend_without_reports_keeps_configured_weights) {
	lab_near(share_of_slow("", "'loss_percent': 100", ""), 1.0, 0.01);
	lab_near(share_of_slow(", 'blackout_ms': 1000000", "", ""), 1.0, 0.01);
}

TEST(backend_late_reports_are_late) {
	const char *slow = "{'event': 'slow', 'at_ms': 60000, 'speed': 0.1}";
	double fresh = share_of_slow(", 'smoothing_ms': 0", "", slow);
	double late = share_of_slow(", 'smoothing_ms': 0", "'delay_ms': 40000", slow);

	assert_true(late > fresh + 0.1);
}
