// SPDX-License-Identifier: BSD-3-Clause
//
// Deterministic subsetting: clients are grouped into rounds. A round has as many clients as there
// are disjoint subsets of the backends; the clients of a round divide one shuffle into slices, so
// that each backend of the shuffle has one client per round. Every round has a different shuffle.
// With a single shuffle, the same backends would form a subset in every round. If these backends
// failed together, all clients of this subset would be without a backend.
//
// An unusable backend is replaced by the next backend after the slice.
#include <string.h>

#include "subset_private.h"

struct weir_subset_slice weir_subset_slice(
	enum weir_subset_mode mode, uint32_t client, uint32_t n, uint32_t size) {
	uint32_t slices = n / size;
	uint32_t length = mode == WEIR_SUBSET_MODE_EXACT ? size : n / slices;
	uint32_t longer = mode == WEIR_SUBSET_MODE_EXACT
				  ? 0
				  : n % slices; // number of slices with one additional backend
	uint32_t slice = client % slices;

	return (struct weir_subset_slice){
		.round = client / slices,
		.first = slice * length + (slice < longer ? slice : longer),
		.length = length + (slice < longer),
	};
}

// Writes the backends of a round to `ring`, not yet shuffled, and the omitted backends to
// ret_left. Consecutive rounds omit different backends. Returns the number of backends in the ring.
static uint32_t list_round(
	uint32_t round, uint32_t n, uint32_t left_out, uint32_t *ring, uint32_t *ret_left) {
	uint32_t first = (uint32_t)((uint64_t)round * left_out % n);
	uint32_t in_ring = 0;
	uint32_t left = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint32_t after = i >= first ? i - first : i + n - first;

		if (after < left_out) {
			ret_left[left++] = i;
		} else {
			ring[in_ring++] = i;
		}
	}
	return in_ring;
}

uint32_t weir_subset_deterministic_order(const struct weir_subset_params *params, uint32_t n,
	uint32_t *ret_order, uint32_t *scratch) {
	struct weir_subset_slice slice =
		weir_subset_slice(params->mode, params->client, n, params->size);
	struct weir_prng prng = weir_subset_seeded(params->salt, slice.round);
	uint32_t left_out = params->mode == WEIR_SUBSET_MODE_EXACT ? n % params->size : 0;
	uint32_t in_ring =
		list_round(slice.round, n, left_out, scratch, ret_order + (n - left_out));
	uint32_t tail = in_ring - slice.first;

	weir_prng_shuffle(&prng, scratch, in_ring);
	memcpy(ret_order, scratch + slice.first, tail * sizeof(*ret_order));
	memcpy(ret_order + tail, scratch, slice.first * sizeof(*ret_order));
	return slice.length;
}
