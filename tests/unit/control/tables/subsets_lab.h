// SPDX-License-Identifier: BSD-3-Clause
//
// For tests of subsets: one service, s0, has a subset, and the tables are read as a worker reads
// them.
#pragma once

#include "tables_lab.h"

#define BACKENDS_MAX 64

// Returns a configuration with n backends and a subset of this size. The fleet has 4 groups of 3
// instances.
struct weir_config *subset_config(uint32_t n, uint32_t size, enum weir_subset_client client);
// Returns the backends in a worker's table; bit i = backend bi. Checks that each slot has one of
// these backends.
uint64_t subset_seen_by(struct lab *lab, uint32_t worker);
// Returns the subset that the algorithm selects for a client. down: bit i = backend bi is unusable.
uint64_t subset_expected(
	const struct weir_config *config, uint32_t client, uint32_t n, uint64_t down);
void subset_set_health(struct lab *lab, uint32_t backend, enum weir_health_state health);
uint32_t subset_first_of(uint64_t bits);
