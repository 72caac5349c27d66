// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: a backend that has just become healthy gets only a fraction of its share of new
// flows, because its caches are cold and its connections to other servers are not open yet. The
// fraction grows to the whole share within a window.
//
// Source: Envoy's slow start mode: max(min, (t / window) ^ (1 / aggression)).
//
// struct weir_policy_share in policy.h describes how each policy applies the fraction.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

struct weir_slow_start_settings {
	uint64_t window_ms; // 0 = no slow start
	double aggression; // > 0; 1 = linear, a higher value gives more flows at first
	double least; // minimum fraction of its share, which the backend gets at the start: 0..1
};

// Minimum of t_ms: a shorter time since the backend became healthy counts as this time.
#define WEIR_SLOW_START_LEAST_MS 1000u

// Returns the fraction of its share that a backend gets t_ms after it became healthy: above 0, at
// most 1.
double weir_slow_start_factor(const struct weir_slow_start_settings *settings, uint64_t t_ms);

// Scales the factors of a service's candidates so that the largest is 1. Without scaling, if all
// backends of a service are new, all of them would skip flows. Returns the sum of the scaled
// factors.
double weir_slow_start_level(double *factors, uint32_t n);

// Converts a scaled factor to the values for workers. n: number of candidates; sum: the sum of
// their scaled factors.
struct weir_policy_share;
void weir_slow_start_share(double factor, double sum, uint32_t n, struct weir_policy_share *ret);
