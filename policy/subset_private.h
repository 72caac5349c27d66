// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the subsetting algorithms. Each algorithm fills ret_order[n] and returns how many
// backends the client uses (subset.h, weir_subset_order), for 0 < size < n.
#pragma once

#include <stdint.h>

#include "prng.h"
#include "subset.h"

#define WEIR_ROCKSTEADIER_LOT 10u // backends per lot, and also clients per lot

uint32_t weir_subset_random_order(
	const struct weir_subset_params *params, uint32_t n, uint32_t *ret_order);

// scratch: [n]
uint32_t weir_subset_deterministic_order(const struct weir_subset_params *params, uint32_t n,
	uint32_t *ret_order, uint32_t *scratch);

// scratch: [weir_subset_scratch_count(n)]
uint32_t weir_subset_rocksteadier_order(const struct weir_subset_params *params, uint32_t n,
	uint32_t *ret_order, uint32_t *scratch);

static inline struct weir_prng weir_subset_seeded(uint32_t salt, uint32_t x) {
	return (struct weir_prng){(uint64_t)salt << 32 | x};
}
