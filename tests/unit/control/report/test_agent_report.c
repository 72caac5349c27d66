// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the report in an agent's answer: the units of its values, and the times, which are computed
// from the differences between two answers.
#include <string.h>

#include "agent_message.h"
#include "health_state.h"
#include "test.h"

#define TIMES \
	(WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) | WEIR_REPORT(BUSY_TIME) | \
		WEIR_REPORT(BUSY_COUNT))

static const struct weir_agent_answer before = {
	.agent = 5,
	.clock_ms = 1000,
	.given = WEIR_AGENT_GIVEN,
	.gcu_milli = 1000,
	.service_sum_us = 1000000,
	.service_count = 100,
	.busy_sum_us = 200000,
	.busy_count = 90,
};

static struct weir_agent_answer after(void) {
	struct weir_agent_answer answer = before;

	answer.clock_ms += 500;
	answer.service_sum_us += 30000;
	answer.service_count += 4;
	answer.busy_sum_us += 500;
	answer.busy_count += 2;
	return answer;
}

TEST(a_model_without_a_speed) {
	struct weir_agent_answer answer = after();
	struct weir_report report;

	answer.gcu_milli = 0;
	answer.cpu_model = 77;
	assert_int_equal(weir_agent_answer_report(&answer, NULL, &report), 0);
	assert_false(report.given & WEIR_REPORT(GCU));
	assert_int_equal(report.cpu_model, 77);
}

TEST(every_value_in_its_unit) {
	struct weir_agent_answer answer = after();
	struct weir_report report;

	answer.requests_milli_per_s = 1500;
	answer.errors_milli_per_s = 250;
	answer.service_median_us = 6500;
	answer.utilization_ppm = 1250000;
	answer.active = 17;
	answer.accept_queue = 3;
	answer.accept_queue_limit = 128;
	answer.cpu_milli = 500;
	answer.cpu_mhz = 2450;
	answer.gcu_milli = 1250;
	answer.cpu_model = 77;
	answer.max_active_flows = UINT32_MAX;
	answer.word = WEIR_HEALTH_WORD_STARTING;
	strcpy(answer.why, "caches are cold");
	assert_int_equal(weir_agent_answer_report(&answer, &before, &report), 0);
	assert_int_equal(report.given, WEIR_AGENT_GIVEN);
	assert_true(report.service_time_ms == 7.5);
	assert_true(report.service_count == 4);
	assert_true(report.busy_time_ms == 0.25);
	assert_true(report.busy_count == 2);
	assert_true(report.service_median_ms == 6.5);
	assert_true(report.requests_per_second == 1.5);
	assert_true(report.errors_per_second == 0.25);
	assert_true(report.utilization == 1.25);
	assert_true(report.active_requests == 17);
	assert_true(report.accept_queue == 3);
	assert_true(report.accept_queue_limit == 128);
	assert_true(report.cpus == 0.5);
	assert_true(report.cpu_mhz == 2450);
	assert_true(report.gcu == 1.25);
	assert_int_equal(report.cpu_model, 77);
	assert_true(report.max_active_flows == UINT32_MAX);
	assert_int_equal(report.word, WEIR_HEALTH_WORD_STARTING);
	assert_string_equal(report.why, "caches are cold");
}

TEST(only_given_values_are_reported) {
	struct weir_agent_answer answer = after();
	struct weir_report report;

	answer.active = 17;
	answer.requests_milli_per_s = 1000;
	answer.given = WEIR_REPORT(ACTIVE);
	weir_agent_answer_report(&answer, &before, &report);
	assert_int_equal(report.given, WEIR_REPORT(ACTIVE));
	assert_true(report.active_requests == 17);
	assert_true(report.requests_per_second == 0);
}

static void expect_no_times(
	const struct weir_agent_answer *answer, const struct weir_agent_answer *last) {
	struct weir_report report;

	weir_agent_answer_report(answer, last, &report);
	assert_int_equal(report.given, WEIR_AGENT_GIVEN & ~TIMES);
	assert_true(report.service_time_ms == 0);
	assert_true(report.busy_time_ms == 0);
}

TEST(times_need_an_older_answer_of_the_same_agent) {
	struct weir_agent_answer answer = after(), last = before;

	expect_no_times(&answer, NULL);
	expect_no_times(&answer, &answer); // no request since the last answer
	last.agent++; // another process, whose sums began at 0
	expect_no_times(&answer, &last);
	last = before;
	last.clock_ms = answer.clock_ms;
	expect_no_times(&answer, &last);
	last.clock_ms++; // an earlier answer that arrives later
	expect_no_times(&answer, &last);
	last = before;
	last.given = 0;
	expect_no_times(&answer, &last);
	// Sums that decrease, although the agent's process is the same.
	last = before;
	last.service_count = UINT64_MAX;
	last.busy_sum_us = UINT64_MAX;
	expect_no_times(&answer, &last);
}

TEST(absurd_numbers_are_omitted) {
	struct weir_agent_answer answer = after(), last = before;
	struct weir_report report;

	answer.requests_milli_per_s = UINT64_MAX;
	answer.errors_milli_per_s = UINT64_MAX;
	answer.active = UINT32_MAX;
	answer.service_sum_us = UINT64_MAX;
	last.service_sum_us = 0;
	answer.busy_count = UINT64_MAX;
	assert_int_equal(weir_agent_answer_report(&answer, &last, &report),
		WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE) |
			WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(BUSY_TIME));
	assert_int_equal(report.given,
		WEIR_AGENT_GIVEN &
			~(WEIR_REPORT(REQUESTS) | WEIR_REPORT(ERRORS) | WEIR_REPORT(ACTIVE) |
				WEIR_REPORT(SERVICE_TIME) | WEIR_REPORT(SERVICE_COUNT) |
				WEIR_REPORT(BUSY_TIME) | WEIR_REPORT(BUSY_COUNT)));
}
