// SPDX-License-Identifier: BSD-3-Clause
#include "canary_judge.h"

#include <math.h>
#include <stdio.h>

#define ERRORS_LEAST 3.0
#define DEVIATIONS_END 2.0
#define DEVIATIONS_EARLY 3.3
#define LATENCY_EARLY 1.5 // factor by which latency_ratio is multiplied before the end of a step

bool weir_canary_is_reported(
	const struct weir_canary_side *canary, const struct weir_canary_side *others) {
	return canary->reported.requests > 0 || others->reported.requests > 0;
}

// Returns the lower bound of Wilson's interval for an error rate. deviations: half the width of the
// interval, in standard deviations.
static double lower_bound(double errors, double requests, double deviations) {
	double rate = errors / requests, z2 = deviations * deviations;
	double middle = rate + z2 / (2 * requests);
	double half =
		deviations * sqrt(rate * (1 - rate) / requests + z2 / (4 * requests * requests));
	double bound = (middle - half) / (1 + z2 / requests);

	return bound > 0 ? bound : 0;
}

static bool is_enough(const struct weir_canary_plan *plan, const struct weir_canary_counts *canary,
	const struct weir_canary_counts *others) {
	return canary->requests >= plan->min_requests && others->requests >= plan->min_requests;
}

static double percent(const struct weir_canary_counts *counts) {
	return counts->requests > 0 ? 100 * counts->errors / counts->requests : 0;
}

static double latency(const struct weir_canary_counts *counts) {
	return counts->latency_count > 0 ? counts->latency_sum_ms / counts->latency_count : 0;
}

static bool has_more_errors(const struct weir_canary_plan *plan,
	const struct weir_canary_counts *canary, const struct weir_canary_counts *others,
	bool at_end) {
	double errors = canary->errors < canary->requests ? canary->errors : canary->requests;
	double allowed = plan->error_ratio * (others->errors + 1) / (others->requests + 2);

	return errors >= ERRORS_LEAST && is_enough(plan, canary, others) &&
	       lower_bound(errors, canary->requests, at_end ? DEVIATIONS_END : DEVIATIONS_EARLY) >
		       allowed;
}

// Returns whether the mean latency of each side includes at least min_requests requests.
static bool has_latencies(const struct weir_canary_plan *plan,
	const struct weir_canary_counts *canary, const struct weir_canary_counts *others) {
	return canary->latency_count >= plan->min_requests &&
	       others->latency_count >= plan->min_requests;
}

static bool is_slower(const struct weir_canary_plan *plan, const struct weir_canary_counts *canary,
	const struct weir_canary_counts *others, bool at_end) {
	double allowed = plan->latency_ratio * (at_end ? 1 : LATENCY_EARLY);

	return is_enough(plan, canary, others) && has_latencies(plan, canary, others) &&
	       latency(canary) > allowed * latency(others);
}

static void write_errors(const char *what, const struct weir_canary_counts *canary,
	const struct weir_canary_counts *others, char why[WEIR_CANARY_WHY_BYTES]) {
	snprintf(why, WEIR_CANARY_WHY_BYTES,
		"errors: %.2f %% of %.0f %s, other backends %.2f %% of %.0f", percent(canary),
		canary->requests, what, percent(others), others->requests);
}

static void write_latency(const struct weir_canary_counts *canary,
	const struct weir_canary_counts *others, char why[WEIR_CANARY_WHY_BYTES]) {
	snprintf(why, WEIR_CANARY_WHY_BYTES,
		"mean latency: %.2f ms for %.0f requests, other backends %.2f ms", latency(canary),
		canary->latency_count, latency(others));
}

// Writes what is missing for a verdict at the end of a step, for example requests. Returns false if
// nothing is missing. If the latency of one side is unknown, latencies are not compared and nothing
// is missing. what: name of the requests, for the text.
static bool write_missing(const struct weir_canary_plan *plan,
	const struct weir_canary_counts *canary, const struct weir_canary_counts *others,
	const char *what, char why[WEIR_CANARY_WHY_BYTES]) {
	const bool has_requests = is_enough(plan, canary, others);
	double own = canary->requests, rest = others->requests;

	if (has_requests && (canary->latency_count <= 0 || others->latency_count <= 0 ||
				    has_latencies(plan, canary, others))) {
		return false;
	}
	if (has_requests) {
		own = canary->latency_count;
		rest = others->latency_count;
	}
	snprintf(why, WEIR_CANARY_WHY_BYTES, "%.0f of %.0f required %s%s so far (%s)",
		floor(own < plan->min_requests ? own : rest), plan->min_requests, what,
		has_requests ? " with a latency" : "",
		own < plan->min_requests ? "canary" : "other backends");
	return true;
}

enum weir_canary_verdict weir_canary_judge(const struct weir_canary_plan *plan,
	const struct weir_canary_side *canary, const struct weir_canary_side *others, bool at_end,
	char why[WEIR_CANARY_WHY_BYTES]) {
	const bool reported = weir_canary_is_reported(canary, others);
	const struct weir_canary_counts *of = reported ? &canary->reported : &canary->flows;
	const struct weir_canary_counts *rest = reported ? &others->reported : &others->flows;
	const char *what = reported ? "requests" : "new flows";

	why[0] = '\0';
	if (has_more_errors(plan, of, rest, at_end)) {
		write_errors(what, of, rest, why);
		return WEIR_CANARY_WORSE;
	}
	if (has_more_errors(plan, &canary->flows, &others->flows, at_end)) {
		write_errors("new flows", &canary->flows, &others->flows, why);
		return WEIR_CANARY_WORSE;
	}
	if (is_slower(plan, of, rest, at_end)) {
		write_latency(of, rest, why);
		return WEIR_CANARY_WORSE;
	}
	if (!at_end) {
		return WEIR_CANARY_UNDECIDED;
	}
	if (write_missing(plan, of, rest, what, why)) {
		return WEIR_CANARY_UNDECIDED;
	}
	write_errors(what, of, rest, why);
	return WEIR_CANARY_GOOD;
}
