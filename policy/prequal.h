// SPDX-License-Identifier: BSD-3-Clause
//
// Prequal: the pure functions with which the policy (prequal.c) chooses a probe. Source: Wydrowski
// and others, "Load is not what you should balance", NSDI 2024.
#pragma once

#include "policy.h"

#define WEIR_PREQUAL_DRAWS 3u // probes per flow
#define WEIR_PREQUAL_REMOVE 0.25 // probes removed per flow
// For each 1 + WEIR_PREQUAL_DELTA probes that are added (net of WEIR_PREQUAL_REMOVE), one probe is
// removed because of its number of uses.
#define WEIR_PREQUAL_DELTA 1.0

// The hot-cold lexicographic rule: a probe is hot if it has more active requests than `hot`. The
// chosen probe is the cold probe with the lowest latency or, if all are hot, the probe with the
// fewest active requests; the first of several equal probes is chosen. count > 0.
uint32_t weir_prequal_pick(const struct weir_probe *probes, uint32_t count, uint32_t hot);

// Returns the number of uses after which a probe is removed, at least 1. One probe is then removed
// for each 1 + delta probes that are added, net of `remove` per flow. n: number of backends; m:
// number of probes in the pool. Returns infinity if `remove` removes at least as many probes as are
// added.
double weir_prequal_reuse(uint32_t n, uint32_t m, double draws, double remove, double delta);
