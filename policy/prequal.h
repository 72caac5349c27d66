// SPDX-License-Identifier: BSD-3-Clause
//
// Prequal: the pure functions of its choice (prequal.c). Source: Wydrowski and others, "Load is not
// what you should balance", NSDI 2024.
#pragma once

#include "policy.h"

#define WEIR_PREQUAL_DRAWS 3u // probes per flow
#define WEIR_PREQUAL_REMOVE 0.25 // probes removed per flow
#define WEIR_PREQUAL_DELTA 1.0 // probes per flow by which additions exceed removals

// The hot-cold lexicographic rule: a probe is hot if it has more active requests than `hot`. The
// chosen probe is the cold probe with the lowest latency or, if all are hot, the probe with the
// fewest active requests; among equal probes, the first. count > 0.
uint32_t weir_prequal_pick(const struct weir_probe *probes, uint32_t count, uint32_t hot);

// Maximum uses of a probe that balance additions and removals, with n backends and a pool of m
// probes. Infinity if no number of uses is a balance.
double weir_prequal_reuse(uint32_t n, uint32_t m, double draws, double remove, double delta);
