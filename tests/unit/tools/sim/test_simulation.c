// SPDX-License-Identifier: BSD-3-Clause
#include "simulation.h"

#include <stdio.h>

#include "sim_lab.h"

#define BASE \
	"'name': 'x', 'title': '', 'duration_ms': 20000, 'warmup_ms': 5000," \
	"'backends': {'count': 12, 'cores': 2, 'speeds': [0.7, 1, 1.4], 'queue': 20}," \
	"'cost': {'distribution': 'exponential', 'mean_ms': 12}"
// A scenario with every possible outcome of a request.
#define TURMOIL \
	"'clients': {'count': 9, 'load_percent': 90, 'arrivals': 'bursty', 'timeout_ms': 150}," \
	"'wait': {'distribution': 'exponential', 'mean_ms': 20}," \
	"'flow_control': {'max_active_flows': 3, 'when_exhausted': 'reject'}," \
	"'antagonists': {'interval_ms': 3000}," \
	"'control': {'detection_ms': 800, 'recovery_ms': 300}," \
	"'events': [" \
	"{'event': 'restart', 'at_ms': 4000, 'count': 3, 'every_ms': 500, 'down_ms': 2000}," \
	"{'event': 'restart', 'at_ms': 9000, 'backend': 4, 'silent': true, 'down_ms': 3000}," \
	"{'event': 'restart', 'at_ms': 9500, 'backend': 5, 'drain_ms': 900, 'warm_ms': 2000}," \
	"{'event': 'fail-fast', 'at_ms': 6000, 'backend': 7, 'percent': 60, 'for_ms': 5000}," \
	"{'event': 'slow', 'at_ms': 7000, 'backend': 8, 'speed': 0.1, 'for_ms': 5000}," \
	"{'event': 'lame-duck', 'at_ms': 12000, 'backend': 9, 'for_ms': 3000}," \
	"{'event': 'policy', 'at_ms': 14000, 'policy': {'name': 'fair-share'}}]"

static void assert_same(const struct weir_sim_result *a, const struct weir_sim_result *b) {
	assert_int_equal(a->events, b->events);
	assert_memory_equal(&a->totals, &b->totals, sizeof(a->totals));
	assert_int_equal(a->samples, b->samples);
	assert_memory_equal(a->sample, b->sample, a->samples * sizeof(*a->sample));
	for (uint32_t w = 0; w < a->measures; w++) {
		assert_memory_equal(a->measure[w].backend, b->measure[w].backend,
			a->backends * sizeof(*a->measure[w].backend));
		assert_true(a->measure[w].p99_ms == b->measure[w].p99_ms);
		assert_true(a->measure[w].spread == b->measure[w].spread);
	}
}

// N1: a scenario and a seed always give the same result. Here both runs use the same machine.
TEST(simulation_same_seed_gives_the_same_result) {
	struct weir_sim_file *file = lab_parse("{" BASE ", " TURMOIL "}");
	struct weir_sim_result *first = lab_run(file, 0, 5);
	struct weir_sim_result *second = lab_run(file, 0, 5);
	struct weir_sim_result *other = lab_run(file, 0, 6);

	assert_same(first, second);
	assert_true(first->totals.arrived != other->totals.arrived);
	weir_sim_result_free(first);
	weir_sim_result_free(second);
	weir_sim_result_free(other);
	weir_sim_file_free(file);
}

// N2: every request has exactly one outcome, or is unfinished when the run ends. Each policy has a
// run in which all outcomes occur.
TEST(simulation_every_request_ends_exactly_once) {
	static const char *const scheduling[] = {"fifo", "sharing"};

	for (int policy = 0; policy < WEIR_POLICY_COUNT; policy++) {
		char text[4096];
		struct weir_sim_result *result;

		snprintf(text, sizeof(text),
			"{" BASE ", " TURMOIL ", 'policy': {'name': '%s'},"
			"'steal': {'on': %s, 'victim_floor_ms': 0, 'pending_floor_ms': 0,"
			"'latency_ms': 30, 'loss_percent': 30, 'retransmit_ms': 100},"
			"'variants': [{'name': 'v', 'backends': {'scheduling': '%s'}}]}",
			weir_policy_name((enum weir_policy)policy),
			policy % 3 > 0 ? "true" : "false", scheduling[policy % 2]);
		result = lab_try(text);
		assert_int_equal(result->totals.arrived, lab_accounted(result));
		for (int i = 0; i < WEIR_SIM_ENDING_COUNT; i++) {
			if (result->totals.ended[i] == 0) {
				fail_msg("%s: ending %d never happens",
					weir_policy_name((enum weir_policy)policy), i);
			}
		}
		weir_sim_result_free(result);
	}
}

// N3: the workload depends on the seed alone, not on the policy.
TEST(simulation_workload_does_not_depend_on_the_policy) {
	struct weir_sim_file *file =
		lab_parse("{" BASE ", 'clients': {'count': 5, 'load_percent': 30, 'rate_sigma': 1},"
			  "'variants': [{'name': 'a', 'policy': {'name': 'random'}},"
			  " {'name': 'b', 'policy': {'name': 'least-loaded'}}]}");
	struct weir_sim_result *a = lab_run(file, 0, 3);
	struct weir_sim_result *b = lab_run(file, 1, 3);

	assert_int_equal(a->totals.arrived, b->totals.arrived);
	for (uint32_t i = 0; i < a->samples; i++) {
		assert_int_equal(a->sample[i].totals.arrived, b->sample[i].totals.arrived);
	}
	assert_true(a->measure[0].p99_ms != b->measure[0].p99_ms);
	weir_sim_result_free(a);
	weir_sim_result_free(b);
	weir_sim_file_free(file);
}

// One core with Poisson arrivals: the simulated mean response time must agree with the exact result
// of queueing theory. For M/M/1, and for processor sharing with any distribution, this result is
// the mean service time divided by (1 - load). For M/D/1, it is given by the formula of Pollaczek
// and Khinchine.
TEST(simulation_agrees_with_queueing_theory) {
	static const struct {
		const char *scheduling, *cost;
		double mean_ms;
	} cases[] = {
		{"fifo", "{'distribution': 'exponential', 'mean_ms': 10}", 20.0},
		{"sharing", "{'distribution': 'exponential', 'mean_ms': 10}", 20.0},
		{"sharing", "{'mean_ms': 10}", 20.0},
		{"sharing", "{'distribution': 'uniform', 'min_ms': 0, 'max_ms': 20}", 20.0},
		{"sharing",
			"{'distribution': 'mix', 'parts': [{'percent': 90, 'mean_ms': 5},"
			"{'percent': 10, 'mean_ms': 55}]}",
			20.0},
		{"fifo", "{'mean_ms': 10}", 15.0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char text[1024];
		struct weir_sim_result *result;

		snprintf(text, sizeof(text),
			"{'name': 'x', 'title': '', 'duration_ms': 8000000, 'sample_ms': 100000,"
			"'clients': {'count': 1, 'load_percent': 50},"
			"'backends': {'count': 1, 'cores': 1, 'scheduling': '%s'}, 'cost': %s}",
			cases[i].scheduling, cases[i].cost);
		result = lab_try(text);
		lab_near(result->measure[0].mean_ms, cases[i].mean_ms, 0.03);
		lab_near(result->measure[0].cpu_mean, 0.5, 0.02);
		weir_sim_result_free(result);
	}
}

TEST(simulation_progress_adds_up_to_1000) {
	struct weir_sim_file *file =
		lab_parse("{" BASE ", 'clients': {'count': 5, 'load_percent': 30}}");
	struct weir_sim_result *result = NULL;
	atomic_ullong progress = 0;

	assert_int_equal(weir_sim_run(&file->variant[0], 1, &progress, &result), 0);
	assert_int_equal(atomic_load(&progress), 1000);
	weir_sim_result_free(result);
	weir_sim_file_free(file);
}
