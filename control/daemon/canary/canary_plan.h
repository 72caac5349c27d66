// SPDX-License-Identifier: BSD-3-Clause
//
// Canary plan: the steps of a canary, and the weight that gives a backend a share of the new flows
// of its service.
//
// Threads: any; no shared state.
#pragma once

#include <stddef.h>
#include <stdint.h>

#define WEIR_CANARY_STEPS_MOST 16
#define WEIR_CANARY_PERCENT_LEAST 0.01
#define WEIR_CANARY_PERCENT_MOST 99.0
#define WEIR_CANARY_EVERY_LEAST_MS 1000.0
#define WEIR_CANARY_EVERY_MOST_MS 604800000.0 // a week
#define WEIR_CANARY_RATIO_MOST 1000.0
#define WEIR_CANARY_REQUESTS_MOST 1000000000.0
#define WEIR_CANARY_WEIGHT_MOST 65535u // the limit of weights in the configuration

struct weir_canary_plan {
	double percent[WEIR_CANARY_STEPS_MOST]; // shares of the service's new flows, ascending
	uint32_t steps; // number of steps (elements of percent[]), at least 1
	double every_ms; // length of a step
	// Maximum ratio of the canary's error rate, and of its mean latency, to the values of the
	// other backends.
	double error_ratio, latency_ratio;
	// Number of requests in a step that a verdict needs, both for the canary and for all other
	// backends together.
	double min_requests;
};

// Returns the default plan: steps of 1, 5, 20 and 50 %, of one minute each.
struct weir_canary_plan weir_canary_plan_default(void);
// Check a plan. Returns 0, or -EINVAL with a line in why that names the argument of canary.start.
int weir_canary_plan_check(const struct weir_canary_plan *plan, char *why, size_t why_bytes);

// Returns the weight that gives a backend this percentage of the new flows if the weights of the
// other backends add up to `others`. The weight is rounded, and at most WEIR_CANARY_WEIGHT_MOST. It
// is 0 if the exact weight is below 0.5, or if others is 0.
uint32_t weir_canary_weight(double percent, uint64_t others);
// Returns the percentage of the new flows that a weight gives a backend if the weights of the other
// backends add up to `others`; 0 for weight 0.
double weir_canary_share(uint32_t weight, uint64_t others);
