// SPDX-License-Identifier: BSD-3-Clause
//
// Converts an agent's answer to a report.
#include <string.h>

#include "agent_message.h"

struct sum { // sums of times since the agent's start
	uint64_t us;
	uint64_t count;
};

// Sets two fields of the report for the requests between two answers: the mean time, and the number
// of requests. Sets neither field if there was no request, or if a sum has become smaller. Returns
// 0. If the values are impossible, sets neither field and returns the bit of `mean`.
static uint32_t report_times(const struct sum *now, const struct sum *before,
	struct weir_report *report, enum weir_report_field mean, enum weir_report_field count) {
	uint64_t requests = now->count - before->count;

	if (now->count <= before->count || now->us < before->us) {
		return 0;
	}
	// Set both fields or neither: a mean without a count would be used as the time of one
	// request.
	if ((double)requests > weir_report_field_largest(count) ||
		!weir_report_set(
			report, mean, (double)(now->us - before->us) / 1e3 / (double)requests)) {
		return 1u << mean;
	}
	weir_report_set(report, count, (double)requests);
	return 0;
}

static uint32_t report_new_times(const struct weir_agent_answer *answer,
	const struct weir_agent_answer *before, struct weir_report *report) {
	uint32_t both = answer->given & before->given, dropped = 0;

	if ((both & WEIR_REPORT(SERVICE_TIME)) != 0) {
		dropped |= report_times(
			&(struct sum){answer->service_sum_us, answer->service_count},
			&(struct sum){before->service_sum_us, before->service_count}, report,
			WEIR_REPORT_BIT_SERVICE_TIME, WEIR_REPORT_BIT_SERVICE_COUNT);
	}
	if ((both & WEIR_REPORT(BUSY_TIME)) != 0) {
		dropped |= report_times(&(struct sum){answer->busy_sum_us, answer->busy_count},
			&(struct sum){before->busy_sum_us, before->busy_count}, report,
			WEIR_REPORT_BIT_BUSY_TIME, WEIR_REPORT_BIT_BUSY_COUNT);
	}
	return dropped;
}

uint32_t weir_agent_answer_report(const struct weir_agent_answer *answer,
	const struct weir_agent_answer *before, struct weir_report *ret) {
	const struct {
		enum weir_report_field field;
		double value;
	} values[] = {
		{WEIR_REPORT_BIT_SERVICE_MEDIAN, answer->service_median_us / 1e3},
		{WEIR_REPORT_BIT_REQUESTS, (double)answer->requests_milli_per_s / 1e3},
		{WEIR_REPORT_BIT_ERRORS, (double)answer->errors_milli_per_s / 1e3},
		{WEIR_REPORT_BIT_UTILIZATION, answer->utilization_ppm / 1e6},
		{WEIR_REPORT_BIT_ACTIVE, answer->active},
		{WEIR_REPORT_BIT_QUEUE, answer->accept_queue},
		{WEIR_REPORT_BIT_QUEUE_LIMIT, answer->accept_queue_limit},
		{WEIR_REPORT_BIT_CPUS, answer->cpu_milli / 1e3},
		{WEIR_REPORT_BIT_CPU_MHZ, answer->cpu_mhz},
		{WEIR_REPORT_BIT_MAX_ACTIVE, answer->max_active_flows},
		{WEIR_REPORT_BIT_GCU, answer->gcu_milli / 1e3},
	};
	uint32_t given = answer->given, dropped = 0;

	if (answer->gcu_milli == 0) {
		given &= ~WEIR_REPORT(GCU); // the answer contains the CPU model, but not the speed
	}
	memset(ret, 0, sizeof(*ret));
	ret->word = answer->word;
	weir_report_set_why(ret, answer->why, sizeof(answer->why));
	ret->port_word_count = answer->port_word_count;
	memcpy(ret->port_words, answer->port_words, sizeof(ret->port_words));
	ret->cpu_model = answer->cpu_model;
	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		if ((given >> values[i].field & 1) != 0 &&
			!weir_report_set(ret, values[i].field, values[i].value)) {
			dropped |= 1u << values[i].field;
		}
	}
	if (before != NULL && before->agent == answer->agent &&
		before->clock_ms < answer->clock_ms) {
		dropped |= report_new_times(answer, before, ret);
	}
	return dropped;
}
