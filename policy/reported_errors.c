// SPDX-License-Identifier: BSD-3-Clause
#include "reported_errors.h"

#include <math.h>

#define NS_PER_S 1e9
#define FIRST_NS 1000000000u // assumed interval before the first report
#define HOLD_MAX_NS 30000000000u
#define ACTIVE_MAX 1000000000.0 // maximum result; a sum with active flows cannot overflow
// This many successful requests are added to the number of requests. Therefore a few failed
// requests have little effect, and a backend that has not reported for a long time is tried
// again.
#define REQUESTS_BEFORE 1.0

static uint64_t since(const struct weir_reported_errors *reported, uint64_t now_ns) {
	return now_ns > reported->last_ns ? now_ns - reported->last_ns : 0;
}

void weir_reported_errors_add(struct weir_reported_errors *reported, double requests_per_second,
	double errors_per_second, uint64_t window_ns, uint64_t now_ns) {
	uint64_t passed_ns = reported->last_ns > 0 ? since(reported, now_ns) : FIRST_NS;
	double kept = exp(-(double)passed_ns / (double)window_ns);
	double span = (1 - kept) * (double)window_ns / NS_PER_S;

	reported->errors = reported->errors * kept + errors_per_second * span;
	reported->requests = reported->requests * kept + requests_per_second * span;
	reported->hold_ns = passed_ns + passed_ns / 2;
	if (reported->hold_ns > HOLD_MAX_NS) {
		reported->hold_ns = HOLD_MAX_NS;
	}
	reported->last_ns = now_ns;
}

// Returns the remaining weight of the reports, 0..1.
static double left(
	const struct weir_reported_errors *reported, uint64_t window_ns, uint64_t now_ns) {
	uint64_t passed_ns = since(reported, now_ns);

	if (passed_ns <= reported->hold_ns) {
		return 1;
	}
	return exp(-(double)(passed_ns - reported->hold_ns) / (double)window_ns);
}

uint32_t weir_reported_errors_active(const struct weir_reported_errors *reported, uint32_t sharers,
	uint64_t window_ns, uint64_t now_ns) {
	double errors = reported->errors * left(reported, window_ns, now_ns);
	double active = rint(errors / sharers);

	// Half an error counts as one error, because the newest report may cover less than a
	// window.
	if (active < 1 && errors >= 0.5) {
		active = 1;
	}
	return active < ACTIVE_MAX ? (uint32_t)active : (uint32_t)ACTIVE_MAX;
}

uint64_t weir_reported_errors_cost_ns(
	const struct weir_reported_errors *reported, uint64_t window_ns, uint64_t now_ns) {
	double kept = left(reported, window_ns, now_ns);
	double errors = reported->errors * kept;
	double requests = reported->requests * kept;

	requests = requests > errors ? requests : errors;
	return (uint64_t)(errors / (requests + REQUESTS_BEFORE) * (double)window_ns);
}
