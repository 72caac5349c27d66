// SPDX-License-Identifier: BSD-3-Clause
//
// Canary judge: determines whether a canary is worse than the other backends, from the counts since
// the start of a step.
//
// Requests come from the reports (of weir-agent, ORCA or weirctl) of the canary and of the other
// backends. If no backend reports requests, new flows count as requests. The error rates of new
// flows are compared in both cases; a flow that stays half-open until its timeout is an error.
//
// Errors: the canary is worse if the lower bound of Wilson's interval (1927) of its error rate is
// above error_ratio times the error rate of the other backends. The rate of the other backends is
// (errors + 1) / (requests + 2), so that it is above 0 even without errors. The bound is computed
// with 2 standard deviations at the end of a step. Before the end, it is computed with 3.3 standard
// deviations, because counts are compared many times. A canary with fewer than three errors is not
// worse. Both sides need min_requests requests.
//
// Latency: at the end of a step, the canary is worse if the ratio of the mean latencies is above
// latency_ratio. Before the end, the ratio must be above 1.5 times latency_ratio. Each mean needs
// min_requests requests with a known latency.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "canary_plan.h"

// Where the errors were counted. The later a source is in this list, the more kinds of errors it
// detects. HTTP errors are only in REPORT, ORCA, and AGENT with an ORCA report. X(NAME, "name")
#define WEIR_CANARY_FIGURES(X) \
	X(PASSIVE, "passive") /* counters of workers: no error rate is reported */ \
	X(AGENT, "agent") /* weir-agent: connections that the server reset, or its ORCA report */ \
	X(REPORT, "report") /* weirctl backend report */ \
	X(ORCA, "orca") /* ORCA in answers to health checks */

enum weir_canary_figures {
	WEIR_CANARY_FIGURES_NONE, // nothing is counted yet
#define X(name, key) WEIR_CANARY_FIGURES_##name,
	WEIR_CANARY_FIGURES(X)
#undef X
};

// Counts of one side of the comparison.
struct weir_canary_counts {
	// Source of the error counts. If there are several sources, this is the source that detects
	// the fewest kinds of errors.
	enum weir_canary_figures figures;
	double requests, errors; // errors: how many of the requests failed
	double latency_sum_ms, latency_count; // sum and number of the latencies that are known
};

// One side of the comparison: the canary, or the other backends. reported: counts from reports;
// flows: counts of new flows.
struct weir_canary_side {
	struct weir_canary_counts reported, flows;
};

enum weir_canary_verdict {
	// Before the end of a step: not worse. At the end: too few requests or latencies.
	WEIR_CANARY_UNDECIDED,
	WEIR_CANARY_GOOD, // only at the end of a step
	WEIR_CANARY_WORSE,
};

#define WEIR_CANARY_WHY_BYTES 192

// Returns whether the requests in reports are compared; if not, only new flows are compared.
bool weir_canary_is_reported(
	const struct weir_canary_side *canary, const struct weir_canary_side *others);
// Judges a canary. at_end: true if the time of the step has passed. why: gets the counts that led
// to the verdict, or what is missing for a verdict. Before the end of the step, why is "" unless
// the verdict is WORSE.
enum weir_canary_verdict weir_canary_judge(const struct weir_canary_plan *plan,
	const struct weir_canary_side *canary, const struct weir_canary_side *others, bool at_end,
	char why[WEIR_CANARY_WHY_BYTES]);
