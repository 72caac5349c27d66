// SPDX-License-Identifier: BSD-3-Clause
//
// Canary signs: adds up the reports and the workers' counters during a step, for the canary and for
// the other backends. canary_judge.h compares these sums.
//
// Threads: the thread of the loop.
#pragma once

#include "canary_judge.h"
#include "reports.h"
#include "segment.h"

struct weir_canary_signs { // sums since the start of a step; zeroed = nothing was counted yet
	struct weir_canary_side canary, others;
	bool counted; // the next four members are valid
	uint64_t canary_flows, canary_errors; // counters of the canary at the start of the step
	uint64_t all_flows, all_errors; // counters of the whole service at the start of the step
};

// Adds the last report of a backend to the counts. Call this function once a second. A report is
// used until the next report arrives, but for at most WEIR_CANARY_REPORT_MS. A report from before
// the step is not used, because the canary had another share then.
//
//  passed_ms   time since the last call
//  step_ms     time since the start of the step
#define WEIR_CANARY_REPORT_MS 15000u
void weir_canary_add_report(struct weir_canary_counts *counts,
	const struct weir_reports_status *status, uint64_t passed_ms, uint64_t step_ms);
// Returns the source of the error counts of both sides: "passive", "agent", "report" or "orca". If
// there are several sources, returns the source that detects the fewest kinds of errors. NULL =
// nothing was counted yet.
const char *weir_canary_figures(const struct weir_canary_signs *signs);
// Update the counts of new flows of the service and of the canary's backend.
void weir_canary_count_flows(struct weir_canary_signs *signs, const struct weir_segment *segment,
	uint16_t service, uint16_t backend);
