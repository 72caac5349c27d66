// SPDX-License-Identifier: BSD-3-Clause
//
// For the tests of subsets: one service, s0, with a subset, as a worker reads it.
#pragma once

#include "tables_lab.h"

#define BACKENDS_MAX 64

// n backends with a subset of this size, of a fleet of 4 groups of 3 instances.
struct weir_config *subset_config(uint32_t n, uint32_t size, enum weir_subset_client client);
// The backends in a worker's table: bit i = backend bi. Every slot must have one of these backends.
uint64_t subset_seen_by(struct lab *lab, uint32_t worker);
// The subset of a client by the algorithm; down: bit i = bi is unusable.
uint64_t subset_expected(
	const struct weir_config *config, uint32_t client, uint32_t n, uint64_t down);
void subset_set_health(struct lab *lab, uint32_t backend, enum weir_health_state health);
uint32_t subset_first_of(uint64_t bits);
