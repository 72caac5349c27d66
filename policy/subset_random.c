// SPDX-License-Identifier: BSD-3-Clause
//
// Random subsetting: every client shuffles the backends independently. The only requirement is that
// all clients have different indexes. The number of clients per backend has a binomial
// distribution: it differs widely between backends, unless a subset contains most of the
// backends.
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
