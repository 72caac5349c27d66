// SPDX-License-Identifier: BSD-3-Clause
//
// Rendezvous subsetting and deterministic aperture, for comparison with Weir's subsetting.
#include <stdlib.h>

#include "prng.h"
#include "subset_reference.h"

static int by_score(const void *left, const void *right) {
	const struct weir_rendezvous_score *a = left;
	const struct weir_rendezvous_score *b = right;

	if (a->score != b->score) {
		return a->score < b->score ? -1 : 1;
	}
	return a->backend < b->backend ? -1 : a->backend > b->backend;
}

void weir_subset_rendezvous(uint32_t client, uint32_t salt, uint32_t n, uint32_t size,
	uint32_t *ret_subset, struct weir_rendezvous_score *scratch) {
	struct weir_prng salted = {salt};
	uint64_t offset = salt == 0 ? 0 : weir_prng_next(&salted);

	for (uint32_t i = 0; i < n; i++) {
		struct weir_prng prng = {((uint64_t)client << 32 | i) + offset};

		scratch[i] = (struct weir_rendezvous_score){weir_prng_next(&prng), i};
	}
	qsort(scratch, n, sizeof(*scratch), by_score);
	for (uint32_t i = 0; i < size; i++) {
		ret_subset[i] = scratch[i].backend;
	}
}

// Returns the length of the intersection of [a, a + a_length) and [b, b + b_length).
static uint64_t overlap(uint64_t a, uint64_t a_length, uint64_t b, uint64_t b_length) {
	uint64_t first = a > b ? a : b;
	uint64_t end = a + a_length < b + b_length ? a + a_length : b + b_length;

	return end > first ? end - first : 0;
}

// The circle has a length of clients * n: each backend has an arc of length `clients`, and the
// starts of two successive clients are n apart.
uint32_t weir_subset_aperture(
	uint32_t client, uint32_t clients, uint32_t n, uint32_t size, uint64_t *ret_cover) {
	uint64_t circle = (uint64_t)clients * n;
	uint64_t steps = ((uint64_t)size * clients + n - 1) / n;
	uint64_t length = (steps < clients ? steps : clients) * n;
	uint64_t start = (uint64_t)client * n;
	uint32_t covered = 0;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t at = (uint64_t)i * clients;

		ret_cover[i] = overlap(start, length, at, clients) +
			       overlap(start, length, at + circle, clients);
		covered += ret_cover[i] > 0;
	}
	return covered;
}
