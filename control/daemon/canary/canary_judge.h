// SPDX-License-Identifier: BSD-3-Clause
//
// Canary judge: whether a canary is worse than the others, from counts since the start of a step.
//
// Requests are those of the reports (of weir-agent, agent-check, ORCA or weirctl) of both sides. If
// neither side has reports, new flows count as requests. Flows that stayed half-open until their
// timeout always count as errors of the flows.
//
// Errors: the canary is worse if the lower bound of Wilson's interval (1927) of its error rate is
// above error_ratio times the rate of the others, (errors + 1) / (requests + 2), so that others
// without any error are no division by 0. The bound is that of 2 standard deviations at the end of
// a step, and of 3.3 before: an early end looks at the counts many times. Fewer than three errors
// are no evidence. Latency: the ratio of the means, each of min_requests requests whose latency is
// known, at the end of a step; before, it must be half again as large.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "canary_plan.h"

// Where the errors come from, the blindest first: an error of HTTP is seen by REPORT and ORCA only.
// X(NAME, "name")
#define WEIR_CANARY_FIGURES(X) \
	X(PASSIVE, "passive") /* counters of workers: no error rate is reported */ \
	X(AGENT, "agent") /* weir-agent: connections that the server reset, or its ORCA */ \
	X(REPORT, "report") /* weirctl backend report */ \
	X(ORCA, "orca") /* in answers to health checks */

enum weir_canary_figures {
	WEIR_CANARY_FIGURES_NONE, // not yet
#define X(name, key) WEIR_CANARY_FIGURES_##name,
	WEIR_CANARY_FIGURES(X)
#undef X
};

struct weir_canary_counts {
	enum weir_canary_figures figures; // of errors: the blindest report among them
	double requests, errors; // errors are among the requests
	double latency_sum_ms, latency_count; // of requests with a known latency
};

struct weir_canary_side {
	struct weir_canary_counts reported, flows;
};

enum weir_canary_verdict {
	WEIR_CANARY_UNDECIDED, // at the end of the step: too few requests
	WEIR_CANARY_GOOD, // only at its end
	WEIR_CANARY_WORSE,
};

#define WEIR_CANARY_WHY_BYTES 192

// Whether reports decide; else new flows.
bool weir_canary_is_reported(
	const struct weir_canary_side *canary, const struct weir_canary_side *others);
// at_end: the step has lasted its time. why: the figures behind the verdict; "" before the end
// unless it is WORSE.
enum weir_canary_verdict weir_canary_judge(const struct weir_canary_plan *plan,
	const struct weir_canary_side *canary, const struct weir_canary_side *others, bool at_end,
	char why[WEIR_CANARY_WHY_BYTES]);
