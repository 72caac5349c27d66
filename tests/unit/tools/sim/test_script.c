// SPDX-License-Identifier: BSD-3-Clause
//
// The script of a simulation: events, and the times at which control detects them.
#include <stdio.h>

#include "sim_lab.h"

// 100 requests a second to each of 10 backends, at equal intervals.
#define BASE \
	"'name': 'x', 'title': '', 'duration_ms': 20000, 'sample_ms': 1000," \
	"'backends': {'count': 10, 'cores': 1}, 'cost': {'mean_ms': 1}," \
	"'clients': {'count': 1, 'requests_per_second': 1000, 'arrivals': 'even'}"

// Returns the number of requests that the watched backend 0 got in this second of the run (1 = the
// first).
static uint64_t watched(const struct weir_sim_result *result, uint32_t second) {
	return result->sample[second - 1].totals.watched;
}

TEST(script_lame_duck_gets_nothing_once_it_is_detected) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'control': {'announce_ms': 500, 'recovery_ms': 0},"
			"'events': [{'event': 'lame-duck', 'at_ms': 5000, 'for_ms': 6000}]}");

	assert_in_range(watched(result, 5), 99, 101);
	// Control detects the failure after half a second.
	assert_in_range(watched(result, 6), 49, 52);
	assert_int_equal(watched(result, 7), 0);
	assert_int_equal(watched(result, 11), 0);
	assert_in_range(watched(result, 12), 49, 52);
	assert_in_range(watched(result, 14), 99, 101);
	assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
	weir_sim_result_free(result);
}

TEST(script_death_costs_requests_until_it_is_detected) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'control': {'detection_ms': 2000, 'recovery_ms': 1000},"
			"'events': [{'event': 'restart', 'at_ms': 5000, 'down_ms': 6000}]}");

	assert_in_range(result->totals.ended[WEIR_SIM_FAILED], 198, 202);
	assert_int_equal(watched(result, 8), 0);
	// The backend is up again, but control has not detected it yet.
	assert_int_equal(watched(result, 12), 0);
	assert_in_range(watched(result, 13), 99, 101);
	weir_sim_result_free(result);
}

TEST(script_short_failure_is_never_detected) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'control': {'detection_ms': 2000},"
			"'events': [{'event': 'restart', 'at_ms': 5000, 'down_ms': 1000}]}");

	assert_in_range(result->totals.ended[WEIR_SIM_FAILED], 98, 102);
	for (uint32_t second = 1; second <= 20; second++) {
		assert_in_range(watched(result, second), 99, 101);
	}
	weir_sim_result_free(result);
}

TEST(script_restart_is_slow_until_warm) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'control': {'detection_ms': 100, 'recovery_ms': 0},"
			"'events': [{'event': 'restart', 'at_ms': 2000, 'down_ms': 1000,"
			"'warm_ms': 4000, 'speed': 0.25}]}");

	lab_near(result->sample[1].watched_cpu, 0.1, 0.05);
	lab_near(result->sample[4].watched_cpu, 0.4, 0.05);
	lab_near(result->sample[9].watched_cpu, 0.1, 0.05);
	weir_sim_result_free(result);
}

TEST(script_slowness_ends_in_time) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'events': [{'event': 'slow', 'at_ms': 2000, 'for_ms': 3000,"
			"'speed': 0.5}]}");

	lab_near(result->sample[1].watched_cpu, 0.1, 0.05);
	lab_near(result->sample[3].watched_cpu, 0.2, 0.05);
	lab_near(result->sample[6].watched_cpu, 0.1, 0.05);
	weir_sim_result_free(result);
}

// If too many backends are down, all backends get requests, up or down, except lame ducks.
TEST(script_panic_uses_all_but_lame_ducks) {
	static const char text[] =
		"{" BASE ", 'control': {'detection_ms': 0, 'announce_ms': 0,"
		"'panic_threshold_percent': %d},"
		"'events': [{'event': 'restart', 'at_ms': 5000, 'backend': 1, 'count': %d,"
		"'down_ms': 100000}, {'event': 'lame-duck', 'at_ms': 5000, 'backend': 0}]}";
	static const struct {
		int threshold, dead;
		uint64_t least, most; // requests that fail in 15 s
	} cases[] = {
		{50, 4, 0, 1}, // 5 of 9 backends are healthy: no panic
		{50, 5, 8300, 8350}, // 4 of 9 backends are healthy: panic
		{0, 5, 0, 1},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char filled[1024];
		struct weir_sim_result *result;

		snprintf(filled, sizeof(filled), text, cases[i].threshold, cases[i].dead);
		result = lab_try(filled);
		assert_in_range(
			result->totals.ended[WEIR_SIM_FAILED], cases[i].least, cases[i].most);
		assert_int_equal(watched(result, 10), 0);
		weir_sim_result_free(result);
	}
}

TEST(script_events_affect_backends_one_after_another) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'control': {'detection_ms': 100000},"
			"'events': [{'event': 'restart', 'at_ms': 2000, 'count': 3,"
			"'every_ms': 4000, 'down_ms': 1000}]}");

	for (uint32_t second = 1; second <= 20; second++) {
		uint64_t failed = result->sample[second - 1].totals.ended[WEIR_SIM_FAILED];
		bool down = second == 3 || second == 7 || second == 11;

		assert_in_range(failed, down ? 98 : 0, down ? 102 : 1);
	}
	weir_sim_result_free(result);
}

TEST(script_policy_changes_for_all) {
	struct weir_sim_result *result =
		lab_try("{" BASE ", 'policy': {'name': 'round-robin'},"
			"'events': [{'event': 'policy', 'at_ms': 10000, 'policy':"
			"{'name': 'random'}}]}");
	double squares = 0;

	for (uint32_t second = 1; second <= 10; second++) {
		assert_in_range(watched(result, second), 99, 101);
	}
	for (uint32_t second = 11; second <= 20; second++) {
		double off = (double)watched(result, second) - 100;

		squares += off * off;
	}
	// With random choices the sum is 900 on average. With round robin it would be below 10.
	assert_true(squares > 50);
	weir_sim_result_free(result);
}
