// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: a backend that has just become healthy gets a fraction of its share of new flows,
// which grows to the whole share within a window, because its caches are cold and its connections
// are not open yet.
//
// Source: Envoy's slow start mode: max(min, (t / window) ^ (1 / aggression)).
//
// How policies apply the fraction: policy.h.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

struct weir_slow_start_settings {
	uint64_t window_ms; // 0 = no slow start
	double aggression; // > 0; 1 = linear, higher: faster at first
	double least; // 0..1: fraction of its share at the start
};

#define WEIR_SLOW_START_LEAST_MS 1000u // minimum of the time since the start of a backend

// The fraction of its share that a backend gets t_ms after it became healthy: above 0, at most 1.
double weir_slow_start_factor(const struct weir_slow_start_settings *settings, uint64_t t_ms);

// Scale the factors of a service's candidates so that the largest is 1: if all backends are new, no
// backend is slowed down. Returns the sum of the scaled factors.
double weir_slow_start_level(double *factors, uint32_t n);

// The values for workers (struct weir_policy_share). n: candidates; sum: of their scaled factors.
struct weir_policy_share;
void weir_slow_start_share(double factor, double sum, uint32_t n, struct weir_policy_share *ret);
