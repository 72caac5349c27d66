// SPDX-License-Identifier: BSD-3-Clause
//
// Rocksteadier subsetting: almost as even as deterministic subsetting, and an added or removed
// backend causes minimal changes. Backends and clients are grouped into lots of ten. For each
// client lot, every backend lot is shuffled independently. Each client of a client lot visits the
// backend lots in the order of a circle (ringsteady.h) and takes one backend from each. Each of
// these clients starts with a different row of the shuffled lots. A new lot is placed between
// existing lots and does not change them.
//
// The last lot is padded; padding elements are shuffled like backends and then skipped, so that a
// new backend replaces a padding element.
#include "ringsteady.h"
#include "subset_private.h"

#define LOT WEIR_ROCKSTEADIER_LOT

// Fills table[lots][LOT] with the backends, and shuffles each lot. All lots use one stream of
// random numbers, one lot after the other. Therefore an additional lot does not change earlier
// lots.
static void shuffle_lots(struct weir_prng prng, uint32_t *table, uint32_t lots) {
	for (uint32_t lot = 0; lot < lots; lot++) {
		uint32_t *rows = table + (size_t)lot * LOT;

		for (uint32_t row = 0; row < LOT; row++) {
			rows[row] = lot * LOT + row;
		}
		weir_prng_shuffle(&prng, rows, LOT);
	}
}

uint32_t weir_subset_rocksteadier_order(const struct weir_subset_params *params, uint32_t n,
	uint32_t *ret_order, uint32_t *scratch) {
	uint32_t client_lot = params->client / LOT;
	uint32_t lots = (n + LOT - 1) / LOT;
	uint32_t *table = scratch;
	uint32_t *circle = scratch + (size_t)lots * LOT; // the lots in visiting order
	uint32_t rows[LOT];
	uint32_t found = 0;

	shuffle_lots(weir_subset_seeded(params->salt, client_lot), table, lots);
	weir_ringsteady_order(client_lot, lots, circle);
	weir_ringsteady_order(0, LOT, rows);

	for (uint32_t lap = 0; lap < LOT; lap++) {
		uint32_t row = rows[(params->client + lap) % LOT];

		for (uint32_t i = 0; i < lots; i++) {
			uint32_t backend = table[(size_t)circle[i] * LOT + row];

			if (backend < n) {
				ret_order[found++] = backend;
			}
		}
	}
	return params->size;
}
