// SPDX-License-Identifier: BSD-3-Clause
//
// Strides. Compares them with the strides of grpc-core's static stride scheduler for the same
// weights.
#include "stride.h"
#include "test.h"

#define N_MAX 16u

static void expect(bool reported, const uint32_t *weights, const uint16_t *strides, uint32_t n) {
	struct weir_candidate candidates[N_MAX];

	for (uint32_t i = 0; i < n; i++) {
		candidates[i] = (struct weir_candidate){.id = (uint16_t)i, .weight = weights[i]};
	}
	weir_stride_scale(candidates, n, reported);
	for (uint32_t i = 0; i < n; i++) {
		assert_int_equal(candidates[i].stride, strides[i]);
		assert_int_equal(candidates[i].weight, weights[i]);
		assert_int_equal(candidates[i].id, i);
	}
}
#define EXPECT(reported, weights, ...) \
	expect(reported, (const uint32_t[])weights, (const uint16_t[])__VA_ARGS__, \
		sizeof((const uint32_t[])weights) / sizeof(uint32_t))
#define W(...) {__VA_ARGS__}

TEST(recorded_weights) {
	for (int reported = 0; reported < 2; reported++) {
		EXPECT(reported, W(1, 1, 1), {65535, 65535, 65535});
		EXPECT(reported, W(5, 1, 1), {65535, 13107, 13107});
		EXPECT(reported, W(3, 2, 1), {65535, 43690, 21845});
		EXPECT(reported, W(100, 200, 300), {21845, 43690, 65535});
		EXPECT(reported, W(5, 8, 10), {32768, 52428, 65535});
		EXPECT(reported, W(300, 100, 200, 400), {49151, 16384, 32768, 65535});
	}
}

TEST(reported_weights_are_capped_and_raised) {
	EXPECT(true, W(1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		{65535, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97, 97});
	EXPECT(true, W(1, 1000000, 1000000), {437, 65535, 65535});
}

TEST(unknown_reports_are_the_mean) {
	EXPECT(true, W(0, 1, 3), {43690, 21845, 65535});
	EXPECT(true, W(0, 0, 5), {65535, 65535, 65535});
}

TEST(configured_ratios_are_honoured) {
	EXPECT(false, W(1000, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1),
		{65535, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66, 66});
	EXPECT(false, W(1, 1000000, UINT32_MAX), {1, 15, 65535});
	EXPECT(false, W(0, 1, 3), {0, 21845, 65535});
	EXPECT(false, W(0, 0), {0, 0});
	EXPECT(false, W(7), {65535});
}

TEST(stride_of_no_weights_is_allowed) {
	weir_stride_scale(NULL, 0, true);
	weir_stride_scale(NULL, 0, false);
}
