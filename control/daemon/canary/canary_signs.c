// SPDX-License-Identifier: BSD-3-Clause
#include "canary_signs.h"

#include <string.h>

#include "totals.h"

static bool has(const struct weir_report *report, uint32_t fields) {
	return (report->given & fields) == fields;
}

static enum weir_canary_figures figures_of(const struct weir_reports_status *status) {
	if (!has(status->report, WEIR_REPORT(ERRORS))) {
		return WEIR_CANARY_FIGURES_PASSIVE;
	}
	return strcmp(status->source, "agent") == 0 ? WEIR_CANARY_FIGURES_AGENT
	       : strcmp(status->source, "api") == 0 ? WEIR_CANARY_FIGURES_REPORT
						    : WEIR_CANARY_FIGURES_ORCA;
}

static enum weir_canary_figures blindest(
	enum weir_canary_figures one, enum weir_canary_figures other) {
	return one == WEIR_CANARY_FIGURES_NONE || (other != WEIR_CANARY_FIGURES_NONE && other < one)
		       ? other
		       : one;
}

void weir_canary_add_report(struct weir_canary_counts *counts,
	const struct weir_reports_status *status, uint64_t passed_ms, uint64_t step_ms) {
	const struct weir_report *report = status->report;
	const bool is_new = status->age_ms < passed_ms;
	double requests = 0, measured = 0;

	if (status->age_ms >= step_ms || status->age_ms >= WEIR_CANARY_REPORT_MS) {
		return;
	}
	if (has(report, WEIR_REPORT(SERVICE_TIME)) && is_new) {
		measured = has(report, WEIR_REPORT(SERVICE_COUNT)) ? report->service_count : 1;
	}
	if (has(report, WEIR_REPORT(REQUESTS))) {
		requests = report->requests_per_second * (double)passed_ms / 1000;
	} else {
		requests = measured;
	}
	if (has(report, WEIR_REPORT(ERRORS))) {
		const double errors = report->errors_per_second * (double)passed_ms / 1000;

		// Limit the errors to the number of requests, so that a backend that reports a
		// wrong error rate does not outweigh other backends.
		counts->errors +=
			errors > requests && has(report, WEIR_REPORT(REQUESTS)) ? requests : errors;
	}
	// If a report has a mean service time, but not the number of requests in this mean, the
	// mean is used for all requests since the previous call.
	if (has(report, WEIR_REPORT(SERVICE_TIME)) && !has(report, WEIR_REPORT(SERVICE_COUNT)) &&
		has(report, WEIR_REPORT(REQUESTS))) {
		measured = requests;
	}
	if (requests > 0) {
		counts->figures = blindest(counts->figures, figures_of(status));
	}
	counts->requests += requests;
	counts->latency_sum_ms += report->service_time_ms * measured;
	counts->latency_count += measured;
}

const char *weir_canary_figures(const struct weir_canary_signs *signs) {
	static const char *const names[] = {NULL,
#define X(name, key) key,
		WEIR_CANARY_FIGURES(X)
#undef X
	};
	enum weir_canary_figures figures =
		blindest(signs->canary.reported.figures, signs->others.reported.figures);

	if (figures == WEIR_CANARY_FIGURES_NONE && signs->counted) {
		figures = WEIR_CANARY_FIGURES_PASSIVE;
	}
	return names[figures];
}

// Returns by how much a counter has increased since the start of the step. Returns 0 if the value
// is below the value at the start, because the counter began again at 0: the id was reused, or a
// new dataplane was attached.
static double since(uint64_t now, uint64_t start) {
	return now > start ? (double)(now - start) : 0;
}

void weir_canary_count_flows(struct weir_canary_signs *signs, const struct weir_segment *segment,
	uint16_t service, uint16_t backend) {
	struct weir_share_counters all = weir_sum_service(segment, service);
	struct weir_share_counters own = weir_sum_backend(segment, backend);
	struct weir_canary_counts *canary = &signs->canary.flows, *others = &signs->others.flows;

	if (!signs->counted || all.new_flows < signs->all_flows ||
		own.new_flows < signs->canary_flows) {
		signs->counted = true;
		signs->canary_flows = own.new_flows;
		signs->canary_errors = own.errors;
		signs->all_flows = all.new_flows;
		signs->all_errors = all.errors;
	}
	canary->requests = since(own.new_flows, signs->canary_flows);
	canary->errors = since(own.errors, signs->canary_errors);
	others->requests = since(all.new_flows, signs->all_flows) - canary->requests;
	others->errors = since(all.errors, signs->all_errors) - canary->errors;
	others->requests = others->requests > 0 ? others->requests : 0;
	others->errors = others->errors > 0 ? others->errors : 0;
}
