// SPDX-License-Identifier: BSD-3-Clause
//
// Canary plan: the steps of a canary, and the weight that gives a backend a share of the new flows
// of its service.
//
// Threads: pure functions.
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
#define WEIR_CANARY_WEIGHT_MOST 65535u // as of a weight in the configuration

struct weir_canary_plan {
	double percent[WEIR_CANARY_STEPS_MOST]; // of the service's new flows, ascending
	uint32_t steps; // of them, at least 1
	double every_ms; // length of a step
	// How many times the errors and the latency of the others the canary may have.
	double error_ratio, latency_ratio;
	double min_requests; // of the canary in a step, and of the others
};

// The plan without arguments: 1, 5, 20 and 50 % for a minute each.
struct weir_canary_plan weir_canary_plan_default(void);
// Returns 0, or -EINVAL with a line in why that names the argument of canary.start.
int weir_canary_plan_check(const struct weir_canary_plan *plan, char *why, size_t why_bytes);

// The weight that gives this percentage beside others with this sum of weights: rounded, at most
// WEIR_CANARY_WEIGHT_MOST. 0 = even a weight of 1 gives more than twice of it, or there are no
// others.
uint32_t weir_canary_weight(double percent, uint64_t others);
// The percentage that a weight gives beside others; 0 without any weight.
double weir_canary_share(uint32_t weight, uint64_t others);
