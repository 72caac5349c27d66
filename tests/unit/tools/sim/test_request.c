// SPDX-License-Identifier: BSD-3-Clause
//
// Requests of a simulation: each possible outcome, the time of the outcome, and the outcome that is
// reported to the policy.
#include <stdio.h>

#include "sim_lab.h"

// One client, one backend, ten requests per second at equal intervals.
#define ONE \
	"'name': 'x', 'title': '', 'duration_ms': 10000, 'cost': {'mean_ms': 2}," \
	"'wait': {'mean_ms': 30}, 'backends': {'count': 1, 'cores': 1, 'refuse_ms': 0.25}"
#define CLIENT(more) \
	"'clients': {'count': 1, 'requests_per_second': 10, 'arrivals': 'even'" more "}"

static uint64_t ended(const struct weir_sim_result *result, enum weir_sim_ending ending) {
	return result->totals.ended[ending];
}

TEST(request_takes_its_wait_and_its_cost) {
	struct weir_sim_result *result = lab_try("{" ONE ", " CLIENT("") "}");

	assert_int_equal(result->totals.arrived, 100);
	assert_in_range(ended(result, WEIR_SIM_COMPLETED), 99, 100);
	lab_near(result->measure[0].mean_ms, 32.0, 1e-9);
	lab_near(result->measure[0].cpu_mean, 0.02, 0.02);
	weir_sim_result_free(result);
}

TEST(request_to_a_dead_backend_is_refused) {
	struct weir_sim_result *result =
		lab_try("{" ONE ", " CLIENT("") ", 'control': {'detection_ms': 100000},"
						"'events': [{'event': 'restart', 'at_ms': 5010,"
						"'down_ms': 100000}]}");

	assert_in_range(ended(result, WEIR_SIM_COMPLETED), 49, 50);
	assert_in_range(ended(result, WEIR_SIM_FAILED), 49, 51);
	assert_int_equal(result->totals.arrived, lab_accounted(result));
	weir_sim_result_free(result);
}

TEST(request_to_a_silent_backend_is_not_answered) {
	struct weir_sim_result *result = lab_try("{" ONE ", " CLIENT(
		", 'connect_timeout_ms': 1000") ","
						"'control': {'detection_ms': 100000}, 'events': "
						"[{'event': 'restart',"
						"'at_ms': 5010, 'down_ms': 100000, 'silent': "
						"true}]}");

	// The requests of the last second are still waiting when the run ends.
	assert_in_range(ended(result, WEIR_SIM_UNANSWERED), 38, 41);
	assert_in_range(result->unfinished, 9, 11);
	assert_int_equal(result->totals.arrived, lab_accounted(result));
	weir_sim_result_free(result);
}

TEST(request_in_progress_fails_when_its_backend_dies) {
	struct weir_sim_result *result =
		lab_try("{" ONE ", 'clients': {'count': 1, 'requests_per_second': 1000,"
			"'arrivals': 'even'},"
			"'control': {'detection_ms': 0, 'panic_threshold_percent': 0},"
			"'events': [{'event': 'restart', 'at_ms': 5000, 'down_ms': 100000}]}");

	// When the backend dies, 30 requests wait, and many more are queued, because the load is
	// twice the capacity. Control detects the failure at once, and then no backend can be
	// chosen.
	assert_true(ended(result, WEIR_SIM_FAILED) > 2000);
	assert_in_range(ended(result, WEIR_SIM_REJECTED), 4990, 5010);
	assert_int_equal(result->totals.arrived, lab_accounted(result));
	weir_sim_result_free(result);
}

TEST(request_times_out_and_its_backend_continues_it) {
	struct weir_sim_result *result = lab_try("{" ONE ", " CLIENT(", 'timeout_ms': 31.5") "}");

	assert_int_equal(ended(result, WEIR_SIM_COMPLETED), 0);
	assert_in_range(ended(result, WEIR_SIM_TIMED_OUT), 99, 100);
	lab_near(result->measure[0].cpu_mean, 0.02, 0.02);
	weir_sim_result_free(result);
}

TEST(request_timeouts_occur_one_by_one) {
	// More than one request is open at a time: one starts every 100 ms, and each times out
	// after 250 ms.
	struct weir_sim_result *result = lab_try("{" ONE ", " CLIENT(
		", 'timeout_ms': 250") ","
				       "'variants': [{'name': 'v', 'wait': {'mean_ms': 400}}]}");

	assert_in_range(ended(result, WEIR_SIM_TIMED_OUT), 97, 98);
	assert_in_range(result->unfinished, 2, 3);
	weir_sim_result_free(result);
}

TEST(request_beyond_the_queue_is_refused) {
	struct weir_sim_result *result =
		lab_try("{'name': 'x', 'title': '', 'duration_ms': 10000, 'cost': {'mean_ms': 100},"
			"'clients': {'count': 1, 'requests_per_second': 20, 'arrivals': 'even'},"
			"'backends': {'count': 1, 'cores': 1, 'queue': 3}}");

	// The load is twice the capacity, so half of the requests are refused, except for the few
	// requests in the queue.
	assert_in_range(ended(result, WEIR_SIM_FAILED), 95, 100);
	assert_in_range(ended(result, WEIR_SIM_COMPLETED), 98, 101);
	lab_near(result->measure[0].p99_ms, 400, 0.02);
	weir_sim_result_free(result);
}

TEST(request_fails_fast) {
	struct weir_sim_result *result = lab_try(
		"{" ONE ", 'clients': {'count': 1, 'requests_per_second': 1000},"
		"'variants': [{'name': 'v', 'cost': {'mean_ms': 0.1}}],"
		"'events': [{'event': 'fail-fast', 'at_ms': 0, 'percent': 30, 'latency_ms': 1}]}");

	lab_near((double)ended(result, WEIR_SIM_FAILED), 3000, 0.05);
	assert_int_equal(result->measure[0].backend[0].failed, ended(result, WEIR_SIM_FAILED));
	weir_sim_result_free(result);
}
