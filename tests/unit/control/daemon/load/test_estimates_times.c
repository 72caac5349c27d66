// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how costs and error windows are computed from the samples in workers' rings.
#include "estimates_lab.h"

#include <time.h>

static void open_fair_share(struct estimates_lab *lab, uint32_t backends) {
	estimates_lab_open(lab, 1, backends);
	lab_policy(lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab_apply_follow(lab);
}

TEST(mean_over_all_workers) {
	struct estimates_lab lab;

	open_fair_share(&lab, 2);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_sample(&lab, 1, 0, 20 * LAB_MS);
	lab_sample(&lab, 1, 1, 5 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 15 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 1), 5 * LAB_MS);
	assert_int_equal(lab_waiting(&lab, 0), 0);
	assert_int_equal(lab_waiting(&lab, 1), 0);
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, 3);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).service_ns, 15 * LAB_MS);
	estimates_lab_close(&lab);
}

// The window contains 386 samples. Older samples do not count.
TEST(only_the_window_counts) {
	struct estimates_lab lab;

	open_fair_share(&lab, 1);
	for (int i = 0; i < 1000; i++) {
		lab_sample(&lab, 0, 0, LAB_SECOND);
	}
	for (int i = 0; i < 386; i++) {
		lab_sample(&lab, 0, 0, 2 * LAB_MS);
	}
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 0), 2 * LAB_MS);
	assert_int_equal(weir_estimates_backend(lab.estimates, 0, lab.now).samples, 1386);
	estimates_lab_close(&lab);
}

TEST(estimate_without_newer_samples_is_unknown) {
	struct estimates_lab lab;

	open_fair_share(&lab, 2);
	lab_sample(&lab, 0, 0, 10 * LAB_MS);
	lab_sample(&lab, 0, 1, 20 * LAB_MS);
	lab_collect(&lab);
	lab.now += 179 * LAB_SECOND;
	lab_sample(&lab, 0, 1, 20 * LAB_MS);
	lab_collect(&lab);
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 10 * LAB_MS);
	lab.now += 2 * LAB_SECOND;
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 20 * LAB_MS); // the mean of the known costs
	lab.now += 180 * LAB_SECOND;
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 0), 0); // no cost is known
	assert_int_equal(lab_cost(&lab, 1), 0);
	estimates_lab_close(&lab);
}

#define TIMED_REPORTS 100000u

// A service has n backends, which report in turn. Returns the CPU time of one report in seconds.
// The first report of each backend is not measured, because it allocates memory.
static double report_s(uint32_t n) {
	const struct lab_room room = {.max_services = 1, .max_backends = n, .heap_bytes = 64 << 20};
	struct weir_report report = {.given = WEIR_REPORT(SERVICE_TIME), .service_time_ms = 7};
	struct estimates_lab lab;
	char why[256];
	clock_t began = 0;

	estimates_lab_open_large(&lab, &room, 1, n);
	lab_policy(&lab, 0, WEIR_POLICY_FAIR_SHARE);
	lab.config->services[0].policy.service_time = WEIR_SERVICE_TIME_REPORTED;
	lab_apply_follow(&lab);
	for (uint32_t i = 0; i < n + TIMED_REPORTS; i++) {
		if (i == n) {
			began = clock();
		}
		report.service_time_ms = 1 + i % 10;
		assert_true(weir_estimates_report(lab.estimates, (uint16_t)(i % n), &report,
				    lab.now, why, sizeof(why)) > 0);
	}
	began = clock() - began;
	assert_int_equal(lab_cost(&lab, 0) % LAB_MS, 0);
	estimates_lab_close(&lab);
	return (double)began / CLOCKS_PER_SEC / TIMED_REPORTS;
}

TEST(report_cost_does_not_depend_on_the_number_of_backends) {
	double few = report_s(100), many = report_s(10000);

	print_message("%.0f ns, with 100 times as many %.0f ns\n", few * 1e9, many * 1e9);
	// A factor of up to 20 is allowed for cache misses. It would be 100 if each report accessed
	// all backends.
	assert_true(many < 20 * few);
}

// Backends without a known cost get the mean of the known costs, even if few costs are known.
TEST(unknown_costs_follow_the_mean) {
	struct estimates_lab lab;

	open_fair_share(&lab, 8);
	for (uint16_t id = 0; id < 4; id++) {
		lab_sample(&lab, 0, id, (id + 1) * 10 * LAB_MS);
		lab_collect(&lab);
		assert_int_equal(lab_cost(&lab, id), (id + 1) * 10 * LAB_MS);
	}
	assert_int_equal(lab_cost(&lab, 7), 25 * LAB_MS); // mean of 10, 20, 30, 40
	lab_sample(&lab, 0, 4, 100 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(lab_cost(&lab, 7), 25 * LAB_MS);
	weir_estimates_second(lab.estimates, lab.now);
	assert_int_equal(lab_cost(&lab, 7), 40 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 4), 100 * LAB_MS);
	// A cost of a day counts in the mean as ten times the mean of the other costs. Otherwise
	// backends without a known cost would get no flows.
	lab_sample(&lab, 0, 5, 86400000 * LAB_MS);
	lab_collect(&lab);
	weir_estimates_second(lab.estimates, lab.now);
	// (200 + 400) / 6: the other five costs add up to 200
	assert_int_equal(lab_cost(&lab, 7), 100 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 5), 86400000 * LAB_MS);
	estimates_lab_close(&lab);
}

// The ring is written by the dataplane. Invalid contents must not harm control.
TEST(rings_are_not_trusted) {
	const struct weir_ring_position *position;
	struct weir_sample_ring *ring;
	struct estimates_lab lab;

	open_fair_share(&lab, 2);
	ring = &lab.lab.segment->worker_boxes[0].samples;
	position = &lab.lab.segment->control_boxes[0].samples;
	lab_sample(&lab, 0, 1, 7 * LAB_MS);
	lab_sample(&lab, 0, 2, 9 * LAB_MS); // a sample of an unused id
	lab_sample(&lab, 0, 511, 9 * LAB_MS);
	lab_sample(&lab, 0, 65535, 9 * LAB_MS);
	lab_sample(&lab, 0, 1, UINT64_MAX);
	lab_sample(&lab, 0, 0, 0);
	lab_collect(&lab);
	assert_true(lab_cost(&lab, 1) > 7 * LAB_MS);
	assert_int_equal(lab_cost(&lab, 0), 1); // the cost is known, and 1 is the minimum
	ring->tail += WEIR_SAMPLES + 1;
	lab_collect(&lab);
	assert_int_equal(position->head, ring->tail);
	ring->tail -= 100; // decreased, as if nearly 2^64 samples waited
	lab_collect(&lab);
	assert_int_equal(position->head, ring->tail);
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, 6);
	lab_sample(&lab, 0, 0, 8 * LAB_MS);
	lab_collect(&lab);
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, 7);
	estimates_lab_close(&lab);
}

TEST(full_ring_is_emptied) {
	struct estimates_lab lab;

	open_fair_share(&lab, 1);
	for (int i = 0; i < WEIR_SAMPLES; i++) {
		assert_true(lab_sample(&lab, 0, 0, LAB_MS));
	}
	assert_false(lab_sample(&lab, 0, 0, LAB_MS));
	lab_collect(&lab);
	assert_int_equal(weir_estimates_extent(lab.estimates).samples, WEIR_SAMPLES);
	assert_true(lab_sample(&lab, 0, 0, LAB_MS));
	estimates_lab_close(&lab);
}

static uint32_t window_of(struct estimates_lab *lab) {
	struct weir_service_state service;

	assert_int_equal(weir_tables_service(lab->lab.tables, 0, &service), 0);
	return service.settings.error_window_ms;
}

// The error window is 10 mean service times, but at least 1 s and at most 30 s. It changes only if
// the new value differs by half or more.
TEST(error_window_follows_the_service_time) {
	static const struct {
		uint64_t ms;
		uint32_t window_ms;
		bool published;
	} steps[] = {
		{20, 1000, false}, // 200 ms; the minimum is 1 s
		{140, 1000, false}, // 1400 ms: less than 1.5 times 1000 ms
		{160, 1600, true},
		{200, 1600, false},
		{250, 2500, true},
		{170, 2500, false},
		{160, 1600, true},
		{9000, 30000, true},
		{100000, 30000, false},
		{10, 1000, true},
	};
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_LEAST_LOADED);
	lab_apply_follow(&lab);
	assert_false(weir_estimates_second(lab.estimates, lab.now));
	assert_int_equal(window_of(&lab), 1000);
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		for (int j = 0; j < 386; j++) {
			lab_sample(&lab, 0, (uint16_t)(j % 2), steps[i].ms * LAB_MS);
		}
		lab_collect(&lab);
		lab.now += LAB_SECOND;
		assert_int_equal(weir_estimates_second(lab.estimates, lab.now), steps[i].published);
		assert_int_equal(window_of(&lab), steps[i].window_ms);
		assert_int_equal(lab_publish(&lab.lab), steps[i].published ? 1 : 0);
	}
	assert_int_equal(weir_estimates_extent(lab.estimates).backends, 0);
	assert_int_equal(lab_cost(&lab, 0), 0);
	estimates_lab_close(&lab);
}

// A configured error window does not change.
TEST(configured_error_window_is_not_adjusted) {
	struct estimates_lab lab;

	estimates_lab_open(&lab, 1, 2);
	lab_policy(&lab, 0, WEIR_POLICY_POWER_OF_TWO);
	lab.config->services[0].policy.error_window_ms = 500;
	lab_apply_follow(&lab);
	assert_false(weir_estimates_measures(lab.estimates));
	lab_sample(&lab, 0, 0, 9 * LAB_SECOND);
	lab_collect(&lab);
	assert_false(weir_estimates_second(lab.estimates, lab.now));
	assert_int_equal(window_of(&lab), 500);
	estimates_lab_close(&lab);
}
