// SPDX-License-Identifier: BSD-3-Clause
//
// Measurements of a simulation with known results.
#include <math.h>

#include "sim_lab.h"

// Two backends, the second at half speed. Arrivals are evenly spaced, so the CPU load is 0.1 and
// 0.2.
#define TWO \
	"'name': 'x', 'title': '', 'duration_ms': 30000, 'warmup_ms': 10000, 'sample_ms': 1000," \
	"'backends': {'count': 2, 'cores': 2, 'speeds': [1, 0.5]}, 'cost': {'mean_ms': 2}," \
	"'clients': {'count': 1, 'requests_per_second': 200, 'arrivals': 'even'}"

TEST(metrics_spread_and_waste_by_hand) {
	struct weir_sim_result *result = lab_try("{" TWO "}");
	const struct weir_sim_measure *m = &result->measure[0];

	lab_near(m->cpu_min, 0.1, 0.01);
	lab_near(m->cpu_max, 0.2, 0.01);
	lab_near(m->cpu_mean, 0.15, 0.01);
	lab_near(m->spread, 2.0, 0.01);
	lab_near(m->wasted, 0.25, 0.02); // wasted share: (0 + 0.1) / (2 * 0.2)
	lab_near(m->wasted_cores, 0.2, 0.02); // wasted cores: (0 + 0.1) * 2 cores
	lab_near(m->deviation, 1.0 / 3, 0.02);
	lab_near(m->p50_ms, 2.0, 0.02);
	lab_near(m->p99_ms, 4.0, 0.02);
	lab_near(m->mean_ms, 3.0, 0.01);
	lab_near(m->share, 1.0, 0.01);
	lab_near(m->lightest_percent, 100.0, 0.01);
	assert_in_range(m->totals.arrived, 3999, 4001);
	weir_sim_result_free(result);
}

TEST(metrics_samples_cover_the_run) {
	struct weir_sim_result *result = lab_try("{" TWO "}");
	uint64_t arrived = 0;

	assert_int_equal(result->samples, 30);
	for (uint32_t i = 0; i < result->samples; i++) {
		assert_true(result->sample[i].time_ns == (i + 1) * 1000000000ull);
		lab_near(result->sample[i].cpu_min, 0.1, 0.05);
		lab_near(result->sample[i].cpu_max, 0.2, 0.05);
		lab_near(result->sample[i].p99_ms, 4.0, 0.02);
		arrived += result->sample[i].totals.arrived;
	}
	assert_int_equal(arrived, result->totals.arrived);
	weir_sim_result_free(result);
}

// An odd number of nanoseconds.
TEST(metrics_series_has_two_samples) {
	struct weir_sim_result *result =
		lab_try("{'name': 'x', 'title': '', 'duration_ms': 1000.000001, 'clients': {"
			"'count': 1, 'load_percent': 1}, 'backends': {'count': 1},"
			"'cost': {'mean_ms': 1}}");

	assert_int_equal(result->samples, 2);
	weir_sim_result_free(result);
}

TEST(metrics_windows_are_separate_and_may_overlap) {
	struct weir_sim_result *result =
		lab_try("{" TWO ", 'events': [{'event': 'slow', 'at_ms': 10000, 'speed': 0.5}],"
			"'windows': [{'name': 'a', 'from_ms': 0, 'to_ms': 10000},"
			"{'name': 'b', 'from_ms': 10000, 'to_ms': 30000},"
			"{'name': 'c', 'from_ms': 0, 'to_ms': 20000}]}");

	assert_int_equal(result->measures, 3);
	lab_near(result->measure[0].backend[0].cpu, 0.1, 0.02);
	lab_near(result->measure[1].backend[0].cpu, 0.2, 0.02);
	lab_near(result->measure[2].backend[0].cpu, 0.15, 0.02);
	assert_in_range(result->measure[2].totals.arrived, 3999, 4001);
	weir_sim_result_free(result);
}

TEST(metrics_idle_backend_makes_an_infinite_spread) {
	struct weir_sim_result *result =
		lab_try("{" TWO ", 'control': {'announce_ms': 0}, 'watch': 1,"
			"'events': [{'event': 'lame-duck', 'at_ms': 0, 'backend': 1}]}");

	assert_true(isinf(result->measure[0].spread));
	assert_true(result->measure[0].share == 0);
	assert_true(result->measure[0].lightest_percent == 0);
	weir_sim_result_free(result);
}

// The 5th and the 95th percentile are 0 if only one of many backends is used.
TEST(metrics_of_one_used_backend_have_a_tail_spread) {
	struct weir_sim_backend_result backends[40] = {[7] = {.cpu = 0.5}};
	struct weir_sim_measure m = {.backend = backends};
	double sorted[40];

	for (uint32_t i = 0; i < 40; i++) {
		backends[i].measured = true;
	}
	weir_sim_measure_spread(&m, 40, 1, sorted);
	assert_true(isinf(m.spread));
	assert_true(m.tail_spread == 1);
}
