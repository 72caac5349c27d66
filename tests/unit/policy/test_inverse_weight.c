// SPDX-License-Identifier: BSD-3-Clause
//
// Inverse weights: products of weight and stride are equal, exactly where 16 bits suffice.
#include <math.h>

#include "inverse_weight.h"
#include "test.h"

#define MOST 8u

static void scale(const uint32_t *weights, uint32_t n, struct weir_candidate *candidates) {
	for (uint32_t i = 0; i < n; i++) {
		candidates[i] = (struct weir_candidate){
			.id = (uint16_t)i, .weight = weights[i], .stride = 7};
	}
	weir_inverse_weights(candidates, n);
}

TEST(strides_of_usual_weights_are_exact) {
	static const struct {
		uint32_t n, weights[MOST];
		uint16_t strides[MOST];
	} cases[] = {
		{1, {100}, {0}},
		{3, {100, 100, 100}, {0, 0, 0}},
		{2, {0, 1}, {0, 0}},
		{2, {100, 200}, {2, 1}},
		{3, {100, 200, 300}, {6, 3, 2}},
		{3, {1, 65535, 1}, {65535, 1, 65535}},
		{2, {UINT32_MAX, UINT32_MAX}, {0, 0}},
		{2, {2147483647, 4294967294}, {2, 1}},
		{4, {1, 2, 3, 0}, {6, 3, 2, 6}},
		{2, {65535, 65534}, {65534, 65535}},
	};
	struct weir_candidate candidates[MOST];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		scale(cases[i].weights, cases[i].n, candidates);
		for (uint32_t k = 0; k < cases[i].n; k++) {
			assert_int_equal(candidates[k].stride, cases[i].strides[k]);
		}
		assert_true(weir_inverse_weights_are_set(candidates, cases[i].n));
	}
	weir_inverse_weights(candidates, 0);
	assert_true(weir_inverse_weights_are_set(candidates, 0));
}

TEST(other_strides_are_the_nearest) {
	static const uint32_t weights[][MOST] = {{997, 991, 983, 977, 971, 967, 953, 947},
		{65521, 65519, 1009, 13, 40009, 30011, 20011, 10007},
		{UINT32_MAX, 1, 3, 7, 11, 13, 17, 19},
		// The common multiple is 2^64 + 7 * 2^31.
		{1u << 31, 3u << 30, 2863311533, 1u << 31, 1u << 31, 1u << 31, 1u << 31, 1u << 31}};
	struct weir_candidate candidates[MOST];

	for (size_t i = 0; i < sizeof(weights) / sizeof(weights[0]); i++) {
		double least = 1e300;

		scale(weights[i], MOST, candidates);
		for (uint32_t k = 0; k < MOST; k++) {
			least = fmin(least, weights[i][k]);
		}
		for (uint32_t k = 0; k < MOST; k++) {
			double exact = 65535 * least / weights[i][k];

			assert_true(fabs(candidates[k].stride - exact) <= 0.5 ||
				    (exact < 1 && candidates[k].stride == 1));
		}
		assert_true(weir_inverse_weights_are_set(candidates, MOST));
	}
}

TEST(candidates_without_strides_are_found) {
	struct weir_candidate candidates[] = {{.id = 0, .weight = 1}, {.id = 1, .weight = 2}};

	assert_false(weir_inverse_weights_are_set(candidates, 2));
	candidates[1].weight = 1;
	assert_true(weir_inverse_weights_are_set(candidates, 2));
	candidates[0].stride = candidates[1].stride = 1;
	assert_false(weir_inverse_weights_are_set(candidates, 2));
}
