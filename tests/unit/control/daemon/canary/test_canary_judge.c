// SPDX-License-Identifier: BSD-3-Clause
#include "test.h"

#include <string.h>

#include "canary_judge.h"

struct judged {
	double requests, errors, others, others_errors;
	bool at_end;
	enum weir_canary_verdict verdict;
};

#define GOOD WEIR_CANARY_GOOD
#define WORSE WEIR_CANARY_WORSE
#define UNDECIDED WEIR_CANARY_UNDECIDED

// The canary is worse if its percentage of errors is more than 1.5 times the percentage of other
// backends. Both sides need at least 50 requests.
static const struct judged cases[] = {
	// too few requests of the canary
	{0, 0, 0, 0, true, UNDECIDED}, {49, 0, 1000, 0, true, UNDECIDED},
	{49, 49, 1000, 0, true, UNDECIDED}, // undecided even if all requests fail
	{1000, 0, 49, 0, true, UNDECIDED}, // too few requests of other backends
	// good only at the end of a step
	{50, 0, 50, 0, true, GOOD}, {50, 0, 50, 0, false, UNDECIDED},
	{100, 50, 1000, 0, true, WORSE}, // half of the canary's requests fail
	{100, 50, 1000, 0, false, WORSE}, // worse before the end of the step
	{100, 100, 100, 100, true, GOOD}, // the canary is no worse than the other backends
	{1000, 20, 1000, 20, true, GOOD}, {1000, 28, 1000, 20, true, GOOD}, // 1.4 times the errors
	{1000, 36, 1000, 20, true, GOOD}, // 1.8 times the errors: may be random
	{10000, 360, 10000, 200, true, WORSE}, // 1.8 times the errors of more requests
	{1000, 2, 100000, 0, true, GOOD}, // two errors may be random
	{1000, 3, 100000, 0, true, WORSE}, {60, 6, 1000, 20, true, WORSE}, // 10 % against 2 %
	{60, 6, 1000, 20, false, UNDECIDED}, // before the end of the step this may be random
};

TEST(errors_against_the_others) {
	struct weir_canary_plan plan = weir_canary_plan_default();
	char why[WEIR_CANARY_WHY_BYTES];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct judged *one = &cases[i];
		struct weir_canary_side canary = {
			.reported = {.requests = one->requests, .errors = one->errors}};
		struct weir_canary_side others = {
			.reported = {.requests = one->others, .errors = one->others_errors}};
		enum weir_canary_verdict verdict =
			weir_canary_judge(&plan, &canary, &others, one->at_end, why);

		if (verdict != one->verdict) {
			fail_msg("case %zu: %d: %s", i, verdict, why);
		}
		assert_true((why[0] == '\0') == (!one->at_end && verdict == UNDECIDED));
		// Judge the same cases with new flows instead of reports.
		canary.flows = canary.reported;
		others.flows = others.reported;
		memset(&canary.reported, 0, sizeof(canary.reported));
		memset(&others.reported, 0, sizeof(others.reported));
		assert_int_equal(
			weir_canary_judge(&plan, &canary, &others, one->at_end, why), one->verdict);
	}
}

TEST(failed_flows_count_beside_reports) {
	struct weir_canary_plan plan = weir_canary_plan_default();
	struct weir_canary_side canary = {
		.reported = {.requests = 100}, .flows = {.requests = 100, .errors = 50}};
	struct weir_canary_side others = {
		.reported = {.requests = 1000}, .flows = {.requests = 1000}};
	char why[WEIR_CANARY_WHY_BYTES];

	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), WORSE);
	assert_non_null(strstr(why, "of 100 new flows"));
	// Other backends report requests, but the canary does not. The step does not end.
	memset(&canary.flows.errors, 0, sizeof(canary.flows.errors));
	canary.reported.requests = 0;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), UNDECIDED);
	assert_string_equal(why, "0 of 50 required requests so far (canary)");
}

TEST(latency_against_the_others) {
	// the default limit is 1.3 times the latency of other backends
	struct weir_canary_plan plan = weir_canary_plan_default();
	struct weir_canary_side canary = {.reported = {.requests = 100, .latency_count = 100}};
	struct weir_canary_side others = {.reported = {.requests = 100, .latency_count = 100}};
	char why[WEIR_CANARY_WHY_BYTES];

	others.reported.latency_sum_ms = 1000;
	canary.reported.latency_sum_ms = 1290;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), GOOD);
	canary.reported.latency_sum_ms = 1310;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, false, why), UNDECIDED);
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), WORSE);
	assert_string_equal(
		why, "mean latency: 13.10 ms for 100 requests, other backends 10.00 ms");
	canary.reported.latency_sum_ms = 1960; // 1.4 times the latency
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, false, why), WORSE);
	canary.reported.requests = 49;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), UNDECIDED);
	canary.reported.requests = 100;
	others.reported.latency_count = others.reported.latency_sum_ms = 0; // latency unknown
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), GOOD);
}

// The mean latency counts only if at least min_requests requests have a latency. Requests without a
// latency do not count.
TEST(few_latencies_prolong_a_step) {
	struct weir_canary_plan plan = weir_canary_plan_default(); // min_requests of 50
	struct weir_canary_side canary = {.reported = {.requests = 100, .latency_count = 49}};
	struct weir_canary_side others = {.reported = {.requests = 100, .latency_count = 50}};
	char why[WEIR_CANARY_WHY_BYTES];

	canary.reported.latency_sum_ms = 49 * 30;
	others.reported.latency_sum_ms = 50 * 10;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, false, why), UNDECIDED);
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), UNDECIDED);
	assert_string_equal(why, "49 of 50 required requests with a latency so far (canary)");
	canary.reported.latency_count = 50;
	others.reported.latency_count = 49;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), UNDECIDED);
	assert_string_equal(
		why, "49 of 50 required requests with a latency so far (other backends)");
	others.reported.latency_count = 50;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), WORSE);
	canary.reported.latency_sum_ms = 50 * 10;
	assert_int_equal(weir_canary_judge(&plan, &canary, &others, true, why), GOOD);
}
