// SPDX-License-Identifier: BSD-3-Clause
#include "tables_lab.h"

#include <string.h>

#include "canary_signs.h"

static void add(struct weir_segment *segment, uint16_t backend, uint64_t flows, uint64_t errors) {
	struct weir_share_counters *own = weir_segment_backend_counters(segment, 1, backend);
	struct weir_share_counters *all = weir_segment_service_counters(segment, 1, 0);

	own->new_flows += flows;
	own->errors += errors;
	all->new_flows += flows;
	all->errors += errors;
}

TEST(flows_since_the_start_of_the_step) {
	struct weir_segment *segment = lab_segment(NULL);
	struct weir_canary_signs signs = {.counted = false};

	add(segment, 1, 1000, 1000);
	weir_canary_count_flows(&signs, segment, 0, 1);
	assert_true(signs.canary.flows.requests == 0 && signs.others.flows.requests == 0);
	add(segment, 1, 10, 4);
	add(segment, 2, 100, 1);
	weir_canary_count_flows(&signs, segment, 0, 1);
	assert_true(signs.canary.flows.requests == 10 && signs.canary.flows.errors == 4);
	assert_true(signs.others.flows.requests == 100 && signs.others.flows.errors == 1);
	// The counters of a new dataplane begin at 0.
	memset(weir_segment_backend_counters(segment, 1, 1), 0, sizeof(struct weir_share_counters));
	memset(weir_segment_service_counters(segment, 1, 0), 0, sizeof(struct weir_share_counters));
	weir_canary_count_flows(&signs, segment, 0, 1);
	assert_true(signs.canary.flows.requests == 0 && signs.others.flows.requests == 0);
	weir_segment_free(segment);
}

static struct weir_canary_counts counts_of(
	const struct weir_report *report, uint64_t age_ms, uint64_t passed_ms, uint64_t step_ms) {
	struct weir_reports_status status = {.report = report, .source = "http", .age_ms = age_ms};
	struct weir_canary_counts counts = {.requests = 0};

	weir_canary_add_report(&counts, &status, passed_ms, step_ms);
	return counts;
}

// For each backend, at most as many errors as requests are counted. Otherwise a backend with a
// wrong error rate would hide the errors of every canary of the service.
TEST(errors_of_a_backend_are_no_more_than_its_requests) {
	struct weir_report report = {.given = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS),
		.requests_per_second = 100,
		.errors_per_second = 1e12};
	struct weir_canary_counts counts = counts_of(&report, 500, 2000, 60000);

	assert_true(counts.requests == 200 && counts.errors == 200);
}

TEST(rates_count_for_the_time_that_passed) {
	struct weir_report report = {
		.given = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(SERVICE_TIME),
		.requests_per_second = 100,
		.errors_per_second = 10,
		.service_time_ms = 7};
	struct weir_canary_counts counts = counts_of(&report, 5000, 2000, 60000);

	assert_true(counts.requests == 200 && counts.errors == 20);
	assert_true(counts.latency_count == 200 && counts.latency_sum_ms == 1400);
	assert_true(counts_of(&report, 5000, 2000, 5000).requests == 0); // before the step
	assert_true(counts_of(&report, WEIR_CANARY_REPORT_MS, 2000, 60000).requests == 0);
	report.given = WEIR_REPORT(ERRORS);
	assert_true(counts_of(&report, 0, 1000, 60000).requests == 0);
}

// The requests in a report count only once, even if no newer report arrives for a long time.
TEST(numbers_count_once) {
	struct weir_report report = {
		.given = WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT),
		.service_time_ms = 5,
		.service_count = 30};
	struct weir_canary_counts counts = counts_of(&report, 900, 1000, 60000);

	assert_true(counts.requests == 30 && counts.errors == 0);
	assert_true(counts.latency_count == 30 && counts.latency_sum_ms == 150);
	counts = counts_of(&report, 1900, 1000, 60000);
	assert_true(counts.requests == 0 && counts.latency_count == 0);
	report.given |= WEIR_REPORT(REQUESTS);
	report.requests_per_second = 8;
	counts = counts_of(&report, 1900, 1000, 60000);
	assert_true(counts.requests == 8 && counts.latency_count == 0);
}

static void add_of(struct weir_canary_counts *counts, const char *source, uint32_t given) {
	struct weir_report report = {.given = given, .requests_per_second = 10};
	struct weir_reports_status status = {.report = &report, .source = source};

	weir_canary_add_report(counts, &status, 1000, 60000);
}

// Values that only one side reports are not compared. So the source with the fewest fields
// determines which values are used.
TEST(figures_have_the_blindest_source) {
	const uint32_t both = WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS);
	struct weir_canary_signs signs = {.counted = false};

	assert_null(weir_canary_figures(&signs));
	signs.counted = true;
	assert_string_equal(weir_canary_figures(&signs), "passive");
	add_of(&signs.canary.reported, "http", both);
	assert_string_equal(weir_canary_figures(&signs), "orca");
	add_of(&signs.others.reported, "api", both);
	assert_string_equal(weir_canary_figures(&signs), "report");
	add_of(&signs.canary.reported, "agent", both);
	add_of(&signs.canary.reported, "http", both);
	assert_string_equal(weir_canary_figures(&signs), "agent");
	// the report has no error rate
	add_of(&signs.others.reported, "http", WEIR_REPORT(REQUESTS));
	assert_string_equal(weir_canary_figures(&signs), "passive");
}
