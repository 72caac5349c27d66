// SPDX-License-Identifier: BSD-3-Clause
//
// Reported errors: their effect while reports arrive, between reports, and after the last report.
#include "reported_errors.h"
#include "test.h"

#define MS UINT64_C(1000000)
#define SECOND (1000 * MS)

// Makes n reports, one every interval_ms, with these rates. Returns the time of the last report.
static uint64_t report(struct weir_reported_errors *errors, uint64_t now_ns, uint32_t n,
	uint64_t interval_ms, double requests, double failed) {
	for (uint32_t i = 0; i < n; i++) {
		now_ns += interval_ms * MS;
		weir_reported_errors_add(errors, requests, failed, SECOND, now_ns);
	}
	return now_ns;
}

TEST(steady_errors_count_for_a_window) {
	static const uint64_t intervals_ms[] = {10, 100, 500, 1000, 10000};

	for (uint32_t i = 0; i < 5; i++) {
		struct weir_reported_errors errors = {0};
		uint64_t now = report(&errors, SECOND, 1000, intervals_ms[i], 200, 50);

		assert_in_range(weir_reported_errors_active(&errors, 1, SECOND, now), 49, 50);
		assert_in_range(weir_reported_errors_active(&errors, 4, SECOND, now), 12, 13);
		// A quarter of the requests fail, and each error counts for a second.
		assert_in_range(
			weir_reported_errors_cost_ns(&errors, SECOND, now), 245 * MS, 250 * MS);
		// Errors count until the next report is overdue.
		now += intervals_ms[i] * MS * 3 / 2;
		assert_in_range(weir_reported_errors_active(&errors, 1, SECOND, now), 49, 50);
		assert_in_range(
			weir_reported_errors_active(&errors, 1, SECOND, now + SECOND), 17, 19);
		assert_int_equal(
			weir_reported_errors_active(&errors, 1, SECOND, now + 10 * SECOND), 0);
		assert_in_range(weir_reported_errors_cost_ns(&errors, SECOND, now + 10 * SECOND), 0,
			5 * MS);
	}
}

TEST(good_reports_remove_errors) {
	struct weir_reported_errors errors = {0};
	uint64_t now = report(&errors, SECOND, 100, 500, 100, 100);

	assert_in_range(weir_reported_errors_cost_ns(&errors, SECOND, now), 980 * MS, SECOND);
	now = report(&errors, now, 4, 500, 100, 0);
	assert_in_range(weir_reported_errors_active(&errors, 1, SECOND, now), 13, 14);
	now = report(&errors, now, 16, 500, 100, 0);
	assert_int_equal(weir_reported_errors_active(&errors, 1, SECOND, now), 0);
	assert_true(weir_reported_errors_cost_ns(&errors, SECOND, now) < MS);
}

// A single error counts as one active flow at each worker. Without errors, no active flows are
// added.
TEST(few_errors) {
	struct weir_reported_errors errors = {0};
	uint64_t now = report(&errors, SECOND, 20, 500, 100, 0);

	assert_int_equal(weir_reported_errors_active(&errors, 1, SECOND, now), 0);
	assert_int_equal(weir_reported_errors_cost_ns(&errors, SECOND, now), 0);
	now = report(&errors, now, 1, 500, 100, 2); // one error
	assert_int_equal(weir_reported_errors_active(&errors, 1, SECOND, now), 1);
	assert_int_equal(weir_reported_errors_active(&errors, 16, SECOND, now), 1);
	now = report(&errors, now, 4, 500, 100, 0);
	assert_int_equal(weir_reported_errors_active(&errors, 16, SECOND, now), 0);
}

TEST(extreme_reports) {
	struct weir_reported_errors errors = {0};
	uint64_t now = report(&errors, SECOND, 100, 1, 1e12, 1e12);

	assert_int_equal(weir_reported_errors_active(&errors, 1, SECOND, now), 1000000000);
	assert_true(weir_reported_errors_cost_ns(&errors, SECOND, now) <= SECOND);
	// a time from the clock of another process
	assert_true(weir_reported_errors_cost_ns(&errors, SECOND, 0) <= SECOND);
	errors = (struct weir_reported_errors){0};
	report(&errors, SECOND, 10, 500, 0, 100); // more errors than requests
	assert_true(weir_reported_errors_cost_ns(&errors, SECOND, 7 * SECOND) <= SECOND);
	errors = (struct weir_reported_errors){0};
	assert_int_equal(weir_reported_errors_active(&errors, 1, SECOND, now), 0);
}
