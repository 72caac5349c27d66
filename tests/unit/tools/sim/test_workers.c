// SPDX-License-Identifier: BSD-3-Clause
//
// Workers of a simulated balancer: packets, hand-overs of buckets, and the effect of the plan.
#include "workers.h"

#include <stdio.h>

#include "sim_lab.h"

#define STEAL \
	"'steal': {'on': %s, 'victim_floor_ms': 0, 'pending_floor_ms': 0, 'requests': 8," \
	"'pending_ratio': 1.05, 'idle_ratio': 0.95, 'rest_ms': 300%s}"

// workers: additional keys of the "workers" object. Returns the result of seed 1.
static struct weir_sim_result *run(const char *workers, bool on, const char *steal) {
	char text[1024];

	snprintf(text, sizeof(text),
		"{'name': 'x', 'title': '', 'duration_ms': 8000, 'sample_ms': 250,"
		"'workers': {'count': 4%s}, 'windows': [{'name': 'first', 'from_ms': 0,"
		"'to_ms': 2000}, {'name': 'after', 'from_ms': 2000, 'to_ms': 8000}]," STEAL "}",
		workers, on ? "true" : "false", steal);
	return lab_try(text);
}

static uint64_t moved(const struct weir_sim_result *result) {
	return result->totals.steals[WEIR_SIM_STEAL_MOVED];
}

// Every packet is processed, dropped, or in a ring, except for fractions of packets.
static void check_packets(const struct weir_sim_result *result) {
	assert_in_range(result->totals.arrived, lab_accounted(result), lab_accounted(result) + 6);
	lab_near((double)result->totals.arrived, 4e6 * 8, 0.001);
}

TEST(workers_share_even_packets_evenly) {
	struct weir_sim_result *result = run("", true, "");

	lab_near(result->measure[0].cpu_mean, 0.5, 0.01);
	assert_true(result->measure[1].busiest_most < 1.02);
	assert_int_equal(moved(result), 0);
	assert_int_equal(result->totals.ended[WEIR_SIM_FAILED], 0);
	check_packets(result);
	weir_sim_result_free(result);
}

// One worker gets 92.5 % of the packets: 90 % in hot buckets, and a fourth of the other 10 %. That
// is 3.7 times the mean of the four workers. But a worker cannot be busy for more than 100 % of the
// time, which is twice the mean.
TEST(workers_without_stealing_stay_uneven_and_drop) {
	struct weir_sim_result *result = run(", 'hot_buckets': 12, 'hot_percent': 90", false, "");

	lab_near(result->measure[1].cpu_max, 1, 0.001);
	lab_near((double)result->totals.ended[WEIR_SIM_FAILED],
		(0.925 - 0.5) / 0.925 * 0.925 * 32e6, 0.06);
	assert_int_equal(moved(result), 0);
	check_packets(result);
	weir_sim_result_free(result);
}

TEST(workers_that_steal_are_even_within_two_seconds) {
	struct weir_sim_result *result = run(", 'hot_buckets': 12, 'hot_percent': 90", true, "");

	assert_true(result->measure[1].busiest_most < 1.2);
	assert_true(moved(result) >= 8);
	lab_near((double)result->measure[1].totals.ended[WEIR_SIM_FAILED], 0, 0);
	check_packets(result);
	weir_sim_result_free(result);
}

// If the confirmation is too late, the bucket does not move.
TEST(workers_that_are_always_late_keep_their_buckets) {
	struct weir_sim_result *result = run(", 'hot_buckets': 12, 'hot_percent': 90", true,
		", 'loss_percent': 100, 'answer_limit_ms': 200");

	assert_int_equal(moved(result), 0);
	assert_true(result->totals.steals[WEIR_SIM_STEAL_SILENT] > 10);
	check_packets(result);
	weir_sim_result_free(result);
}

// A bucket with more load than a worker can handle does not move. The other buckets of its worker
// move to other workers.
TEST(workers_leave_an_elephant_alone) {
	struct weir_sim_result *result = run(", 'hot_buckets': 1, 'hot_percent': 60", true, "");
	uint64_t before = result->measure[0].totals.steals[WEIR_SIM_STEAL_MOVED];

	assert_true(result->measure[1].cpu_max > 0.99);
	assert_true(before > 0);
	check_packets(result);
	weir_sim_result_free(result);
}

TEST(workers_that_are_idle_are_left_alone) {
	struct weir_sim_result *result =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'load_percent': 2", true, "");

	assert_int_equal(result->totals.steals[WEIR_SIM_STEAL_ASKED], 0);
	check_packets(result);
	weir_sim_result_free(result);
}

// A worker takes part in only one hand-over at a time. If buckets are requested one by one, no
// worker has to refuse a request.
TEST(workers_in_a_handover_refuse_others) {
	const char *hot = ", 'hot_buckets': 12, 'hot_percent': 90";
	struct weir_sim_result *at_once = run(hot, true, ", 'one_by_one': false");
	struct weir_sim_result *one_by_one = run(hot, true, "");

	assert_true(at_once->totals.steals[WEIR_SIM_STEAL_REFUSED] > 10);
	assert_int_equal(one_by_one->totals.steals[WEIR_SIM_STEAL_REFUSED], 0);
	assert_true(at_once->measure[0].busiest > one_by_one->measure[0].busiest);
	weir_sim_result_free(at_once);
	weir_sim_result_free(one_by_one);
}

// A hand-over takes 60 ms at each of the two workers, one after the other. At most two hand-overs
// can be in progress at a time.
TEST(workers_move_no_faster_than_they_hand_over) {
	struct weir_sim_result *result =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'handover_ms': 60", true, "");

	assert_in_range(moved(result), 4, 8000 / 120 * 2);
	check_packets(result);
	weir_sim_result_free(result);
}

TEST(workers_hold_no_more_than_their_limit) {
	struct weir_sim_result *result = run(", 'hot_buckets': 12, 'hot_percent': 90,"
					     "'handover_ms': 50, 'hold_packets': 100",
		true, "");

	// 300 packets per ms arrive for 100 ms or longer, but only 100 packets can be held.
	assert_true(result->totals.ended[WEIR_SIM_FAILED] > moved(result) * 10000);
	check_packets(result);
	weir_sim_result_free(result);
}

// With the code and constants of weir-control, the loads of workers also become even, and no
// request to move a bucket is refused.
TEST(workers_of_control_are_even_within_two_seconds) {
	struct weir_sim_result *result =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'planner': 'control'", true, "");

	assert_true(result->measure[1].busiest_most < 1.2);
	assert_true(moved(result) >= 8);
	assert_int_equal(result->totals.steals[WEIR_SIM_STEAL_REFUSED], 0);
	assert_int_equal(result->measure[1].totals.ended[WEIR_SIM_FAILED], 0);
	check_packets(result);
	weir_sim_result_free(result);
}

// Late answers have no effect, because control reads the owner of a bucket and not the answer.
TEST(workers_of_control_move_although_half_are_late) {
	struct weir_sim_result *late =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'planner': 'control'", true,
			", 'loss_percent': 50");
	struct weir_sim_result *off =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'planner': 'control'", false, "");

	assert_true(late->totals.steals[WEIR_SIM_STEAL_SILENT] > 2);
	assert_true(late->measure[1].busiest < 1.4); // the mean of many seeds is 1.03
	assert_int_equal(moved(off), 0);
	check_packets(late);
	weir_sim_result_free(late);
	weir_sim_result_free(off);
}

TEST(workers_same_seed_gives_the_same_result) {
	struct weir_sim_result *first =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'hot_every_ms': 1000", true, "");
	struct weir_sim_result *second =
		run(", 'hot_buckets': 12, 'hot_percent': 90, 'hot_every_ms': 1000", true, "");

	assert_memory_equal(&first->totals, &second->totals, sizeof(first->totals));
	assert_memory_equal(first->sample, second->sample, first->samples * sizeof(*first->sample));
	weir_sim_result_free(first);
	weir_sim_result_free(second);
}
