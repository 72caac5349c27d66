// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing between backends: which requests move, the cost of moves, and the results if messages
// are late or lost, or if a backend dies.
#include <stdio.h>

#include "sim_lab.h"

// 40 tasks of a second at the first of four backends, as in the recorded run of dask.distributed.
#define DRAIN(steal) \
	"{'name': 'x', 'title': '', 'duration_ms': 60000," \
	"'clients': {'count': 1, 'requests_per_second': 40000, 'arrivals': 'even'," \
	"'from_ms': 999, 'until_ms': 1000}," \
	"'backends': {'count': 4, 'cores': 1, 'weights': [65535, 1, 1, 1]}," \
	"'cost': {'mean_ms': 1000}, 'policy': {'name': 'maglev'}," \
	"'steal': {'interval_ms': 1000, 'latency_ms': 0, 'unknown_ms': 1000, " steal "}}"
// Round robin on six backends, of which one is stuck.
#define STUCK(more, steal) \
	"{'name': 'x', 'title': '', 'duration_ms': 20000," \
	"'clients': {'count': 3, 'load_percent': 50, 'until_ms': 14000}, 'backends': {'count': " \
	"6, 'cores': 2}," \
	"'cost': {'distribution': 'exponential', 'mean_ms': 15}," \
	"'events': [{'event': 'slow', 'at_ms': 2000, 'for_ms': 6000, 'speed': 0.2}" more "]," \
	"'steal': {'victim_floor_ms': 20, 'pending_floor_ms': 20, 'rest_ms': 300, " steal "}}"

static uint64_t steals(const struct weir_sim_result *result, enum weir_sim_steal_count what) {
	return result->totals.steals[what];
}

// Checks the counts. Some steal requests may still be in flight when the run ends.
static void check_counts(const struct weir_sim_result *result) {
	uint64_t ended = steals(result, WEIR_SIM_STEAL_MOVED) +
			 steals(result, WEIR_SIM_STEAL_REFUSED) +
			 steals(result, WEIR_SIM_STEAL_SILENT);

	assert_true(steals(result, WEIR_SIM_STEAL_ASKED) >= ended);
	assert_true(steals(result, WEIR_SIM_STEAL_ASKED) <= ended + 1000);
	assert_int_equal(result->totals.arrived, lab_accounted(result));
	assert_int_equal(result->unfinished, 0); // the clients have stopped long before the end
}

TEST(steal_is_off_by_default) {
	struct weir_sim_result *result = lab_try(DRAIN("'on': false"));

	assert_int_equal(result->totals.arrived, 40);
	assert_int_equal(result->totals.ended[WEIR_SIM_COMPLETED], 40);
	assert_int_equal(result->measure[0].backend[0].requests, 40);
	assert_int_equal(steals(result, WEIR_SIM_STEAL_ASKED), 0);
	lab_near(result->measure[0].p999_ms, 40000, 0.02);
	weir_sim_result_free(result);
}

// In tests/vectors/dask_stealing.json, draining takes 12 s. The optimum is 10 s; without stealing,
// draining takes 40 s.
TEST(steal_drains_like_dask) {
	struct weir_sim_result *result = lab_try(DRAIN("'on': true, 'knows_begun': false"));

	assert_int_equal(result->totals.ended[WEIR_SIM_COMPLETED], 40);
	lab_near(result->measure[0].p999_ms, 12000, 0.02);
	assert_in_range(steals(result, WEIR_SIM_STEAL_MOVED), 25, 32);
	check_counts(result);
	weir_sim_result_free(result);
}

TEST(steal_moves_requests_that_wait_at_a_stuck_backend) {
	struct weir_sim_result *off = lab_try(STUCK("", "'on': false"));
	struct weir_sim_result *on = lab_try(STUCK("", "'on': true"));

	assert_int_equal(off->totals.arrived, on->totals.arrived);
	assert_true(off->measure[0].p99_ms > 5 * on->measure[0].p99_ms);
	assert_true(steals(on, WEIR_SIM_STEAL_MOVED) > 100);
	check_counts(on);
	weir_sim_result_free(off);
	weir_sim_result_free(on);
}

// A client retransmits its first packet after 1, 3 and 7 seconds. A moved connection reaches the
// other backend with the next retransmission.
TEST(steal_with_tcp_waits_for_the_retransmission) {
	struct weir_sim_result *at_once = lab_try(STUCK("", "'on': true"));
	struct weir_sim_result *tcp =
		lab_try(STUCK("", "'on': true, 'delivery': 'retransmission'"));

	assert_true(at_once->measure[0].p999_ms < 1000);
	assert_true(tcp->measure[0].p999_ms > 1000);
	assert_true(tcp->measure[0].p999_ms < 3500);
	check_counts(tcp);
	weir_sim_result_free(at_once);
	weir_sim_result_free(tcp);
}

// If all answers are lost, no request moves, and no request is lost.
TEST(steal_without_answers_moves_nothing) {
	static const char *const silent[] = {
		STUCK("", "'on': true, 'loss_percent': 100"),
		STUCK("", "'on': true, 'latency_ms': 20, 'answer_limit_ms': 10"),
	};

	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		struct weir_sim_result *result = lab_try(silent[i]);

		assert_int_equal(steals(result, WEIR_SIM_STEAL_MOVED), 0);
		assert_true(steals(result, WEIR_SIM_STEAL_SILENT) > 100);
		assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
		check_counts(result);
		weir_sim_result_free(result);
	}
}

// When a late steal request arrives, the client's request is already running or has ended.
TEST(steal_of_running_requests_is_refused) {
	struct weir_sim_result *soon = lab_try(STUCK("", "'on': true, 'latency_ms': 0"));
	struct weir_sim_result *late = lab_try(STUCK("", "'on': true, 'latency_ms': 100"));

	assert_int_equal(steals(soon, WEIR_SIM_STEAL_REFUSED), 0);
	assert_true(steals(late, WEIR_SIM_STEAL_REFUSED) > 10);
	check_counts(late);
	weir_sim_result_free(soon);
	weir_sim_result_free(late);
}

// Victim and thieves die and return while messages are in flight.
TEST(steal_loses_nothing_when_backends_die) {
	struct weir_sim_result *result = lab_try(STUCK(
		", {'event': 'restart', 'at_ms': 5000, 'down_ms': 3000},"
		"{'event': 'restart', 'at_ms': 9000, 'backend': 1, 'count': 3, 'every_ms': 700,"
		"'down_ms': 1500, 'silent': true},"
		"{'event': 'lame-duck', 'at_ms': 14000, 'backend': 4, 'for_ms': 2000}",
		"'on': true, 'latency_ms': 60, 'loss_percent': 20"));

	assert_true(steals(result, WEIR_SIM_STEAL_MOVED) > 30);
	assert_true(steals(result, WEIR_SIM_STEAL_SILENT) > 20);
	assert_int_equal(result->totals.ended[WEIR_SIM_REJECTED], 0);
	check_counts(result);
	weir_sim_result_free(result);
}

// A client's request moves only to backends that the client uses.
TEST(steal_stays_within_the_subset) {
	struct weir_sim_result *result =
		lab_try("{'name': 'x', 'title': '', 'duration_ms': 10000,"
			"'clients': {'count': 1, 'load_percent': 20, 'until_ms': 5000}, "
			"'backends': {'count': 8, 'cores': 2},"
			"'cost': {'distribution': 'exponential', 'mean_ms': 15},"
			"'subset': {'algorithm': 'deterministic', 'size': 4},"
			"'events': [{'event': 'slow', 'at_ms': 0, 'count': 8, 'speed': 0.5},"
			"{'event': 'slow', 'at_ms': 1000, 'count': 4, 'speed': 0.1}],"
			"'steal': {'on': true, 'victim_floor_ms': 20, 'pending_floor_ms': 20}}");
	uint32_t used = 0;

	for (uint32_t i = 0; i < 8; i++) {
		used += result->measure[0].backend[i].requests > 0;
	}
	assert_int_equal(used, 4);
	assert_true(steals(result, WEIR_SIM_STEAL_MOVED) > 10);
	check_counts(result);
	weir_sim_result_free(result);
}
