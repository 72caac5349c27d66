// SPDX-License-Identifier: BSD-3-Clause
#include "inverse_weight.h"

#define STRIDE_MAX 65535u

static uint32_t weight_of(const struct weir_candidate *candidate) {
	return candidate->weight > 0 ? candidate->weight : 1;
}

static uint64_t common_divisor(uint64_t a, uint64_t b) {
	while (b != 0) {
		uint64_t rest = a % b;

		a = b;
		b = rest;
	}
	return a;
}

static bool are_equal(const struct weir_candidate *candidates, uint32_t n) {
	for (uint32_t i = 1; i < n; i++) {
		if (weight_of(&candidates[i]) != weight_of(&candidates[0])) {
			return false;
		}
	}
	return true;
}

static uint32_t least_of(const struct weir_candidate *candidates, uint32_t n) {
	uint32_t least = UINT32_MAX;

	for (uint32_t i = 0; i < n; i++) {
		least = weight_of(&candidates[i]) < least ? weight_of(&candidates[i]) : least;
	}
	return least;
}

// Returns the least common multiple of all weights, or 0 if this multiple is above `most`.
static uint64_t common_multiple(
	const struct weir_candidate *candidates, uint32_t n, uint64_t most) {
	uint64_t multiple = 1;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t weight = weight_of(&candidates[i]);

		weight /= common_divisor(multiple, weight);
		if (multiple > most / weight) {
			return 0;
		}
		multiple *= weight;
	}
	return multiple;
}

void weir_inverse_weights(struct weir_candidate *candidates, uint32_t n) {
	bool equal = are_equal(candidates, n);
	uint64_t most = equal ? 0 : (uint64_t)STRIDE_MAX * least_of(candidates, n);
	uint64_t multiple = equal ? 0 : common_multiple(candidates, n, most);

	for (uint32_t i = 0; i < n; i++) {
		uint64_t weight = weight_of(&candidates[i]);
		uint64_t stride = multiple > 0 ? multiple / weight : (most + weight / 2) / weight;

		candidates[i].stride = equal ? 0 : stride > 0 ? (uint16_t)stride : 1;
	}
}

bool weir_inverse_weights_are_set(const struct weir_candidate *candidates, uint32_t n) {
	return n == 0 || (candidates[0].stride == 0) == are_equal(candidates, n);
}
