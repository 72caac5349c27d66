// SPDX-License-Identifier: BSD-3-Clause
//
// Canary signs: adds up what the judge needs of a canary and the others during a step:
// reports of the backends, and counters of workers.
//
// Threads: one, that of the loop.
#pragma once

#include "canary_judge.h"
#include "reports.h"
#include "segment.h"

struct weir_canary_signs { // since the start of a step; zeroed = nothing is counted yet
	struct weir_canary_side canary, others;
	bool counted; // the four below are valid
	uint64_t canary_flows, canary_errors; // of the counters at the start of the step
	uint64_t all_flows, all_errors; // of the whole service
};

// Add the last report of a backend: call once a second. A report counts for the time until the next
// one, WEIR_CANARY_REPORT_MS at most. One from before the step counts for nothing: it is about
// another share.
//
// passed_ms   since the last call
// step_ms     since the start of the step
#define WEIR_CANARY_REPORT_MS 15000u
void weir_canary_add_report(struct weir_canary_counts *counts,
	const struct weir_reports_status *status, uint64_t passed_ms, uint64_t step_ms);
// Where the errors of both sides come from, the blindest of them: "passive", "agent", "report" or
// "orca". NULL = nothing is counted yet.
const char *weir_canary_figures(const struct weir_canary_signs *signs);
// Count the new flows of a service, and those of its canary.
void weir_canary_count_flows(struct weir_canary_signs *signs, const struct weir_segment *segment,
	uint16_t service, uint16_t backend);
