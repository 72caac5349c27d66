// SPDX-License-Identifier: BSD-3-Clause
//
// Random subsetting: every client shuffles the backends independently. The only requirement is that
// clients have different numbers. The number of clients of a backend has a binomial distribution,
// which is uneven unless subsets contain most of the backends.
#include "subset_private.h"

uint32_t weir_subset_random_order(
	const struct weir_subset_params *params, uint32_t n, uint32_t *ret_order) {
	struct weir_prng prng = weir_subset_seeded(params->salt, params->client);

	for (uint32_t i = 0; i < n; i++) {
		ret_order[i] = i;
	}
	weir_prng_shuffle(&prng, ret_order, n);
	return params->size;
}
