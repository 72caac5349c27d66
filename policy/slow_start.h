// SPDX-License-Identifier: BSD-3-Clause
//
// Slow start: a backend that has just become healthy gets a part of its share of new flows, which
// grows to the whole within a window: its caches are cold, and its connections not yet open.
//
// Source: Envoy's slow start mode: max(min, (t / window) ^ (1 / aggression)).
//
// What a policy makes of the part, and what it does with the numbers of a share: policy.h.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

struct weir_slow_start_settings {
	uint64_t window_ms; // 0 = no slow start
	double aggression; // > 0; 1 = linear, above: faster at first
	double least; // 0..1: of its share, from the first moment on
};

#define WEIR_SLOW_START_LEAST_MS 1000u // less than this since its start counts as this

// The part of its share that a backend gets t_ms after it became healthy: above 0, at most 1.
double weir_slow_start_factor(const struct weir_slow_start_settings *settings, uint64_t t_ms);

// Only ratios matter: where all backends are new, none is slowed down. factors: of the candidates
// of one service; the largest of them becomes 1. Returns their sum.
double weir_slow_start_level(double *factors, uint32_t n);

// As workers are told (struct weir_policy_share). n: candidates; sum: of their factors, levelled.
struct weir_policy_share;
void weir_slow_start_share(double factor, double sum, uint32_t n, struct weir_policy_share *ret);
