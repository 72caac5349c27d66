// SPDX-License-Identifier: BSD-3-Clause
#include <math.h>
#include <stdlib.h>

#include "order.h"
#include "test.h"

#define DRAWS 400000u

static uint32_t *draw(enum weir_bench_order_kind kind, uint32_t flows, double exponent) {
	uint32_t *count = calloc(flows, sizeof(*count));
	struct weir_bench_order order;

	assert_non_null(count);
	weir_bench_order_init(&order, kind, flows, exponent, 42);
	for (uint32_t i = 0; i < DRAWS; i++) {
		uint32_t flow = weir_bench_order_next(&order);

		assert_true(flow < flows);
		count[flow]++;
	}
	return count;
}

TEST(uniform_covers_all_evenly) {
	uint32_t *count = draw(WEIR_BENCH_ORDER_UNIFORM, 1000, 1);
	double chi = 0;

	for (unsigned int i = 0; i < 1000; i++) {
		double off = count[i] - 400.0;

		chi += off * off / 400;
	}
	assert_true(chi > 999 - 6 * 44.7 && chi < 999 + 6 * 44.7);
	free(count);
}

TEST(a_single_flow_is_always_the_first) {
	uint32_t *count = draw(WEIR_BENCH_ORDER_ONE, 1000, 1);

	assert_int_equal(count[0], DRAWS);
	free(count);
}

// Compares the frequencies with the exact probabilities. The formulas have a singularity at
// exponent 1, so exponents near 1 are tested as well.
TEST(zipf_has_its_frequencies) {
	const double exponents[] = {0.5, 0.999999999, 1, 1.2, 3};
	const uint32_t flows = 500;

	for (unsigned int e = 0; e < sizeof(exponents) / sizeof(exponents[0]); e++) {
		uint32_t *count = draw(WEIR_BENCH_ORDER_ZIPF, flows, exponents[e]);
		double sum = 0, chi = 0, pooled = 0, pooled_expected = 0;
		unsigned int cells = 0;

		for (uint32_t k = 1; k <= flows; k++) {
			sum += pow(k, -exponents[e]);
		}
		for (uint32_t k = 1; k <= flows; k++) {
			double expected = DRAWS * pow(k, -exponents[e]) / sum;

			if (expected < 10) { // too rare for a separate cell
				pooled += count[k - 1];
				pooled_expected += expected;
				continue;
			}
			chi += (count[k - 1] - expected) * (count[k - 1] - expected) / expected;
			cells++;
		}
		if (pooled_expected > 10) {
			chi += (pooled - pooled_expected) * (pooled - pooled_expected) /
			       pooled_expected;
			cells++;
		}
		assert_true(chi < cells + 6 * sqrt(2.0 * cells));
		free(count);
	}
}

TEST(zipf_of_one_flow) {
	uint32_t *count = draw(WEIR_BENCH_ORDER_ZIPF, 1, 1);

	assert_int_equal(count[0], DRAWS);
	free(count);
}

TEST(same_seed_same_sequence) {
	struct weir_bench_order a, b, c;
	unsigned int same = 0;

	weir_bench_order_init(&a, WEIR_BENCH_ORDER_UNIFORM, 1u << 20, 1, 1);
	weir_bench_order_init(&b, WEIR_BENCH_ORDER_UNIFORM, 1u << 20, 1, 1);
	weir_bench_order_init(&c, WEIR_BENCH_ORDER_UNIFORM, 1u << 20, 1, 2);
	for (unsigned int i = 0; i < 1000; i++) {
		uint32_t flow = weir_bench_order_next(&a);

		assert_int_equal(flow, weir_bench_order_next(&b));
		same += flow == weir_bench_order_next(&c);
	}
	assert_true(same < 10);
}

TEST(unit_is_above_0_and_at_most_1) {
	struct weir_bench_random random = {.state = 9};
	double sum = 0;

	for (unsigned int i = 0; i < 100000; i++) {
		double unit = weir_bench_random_unit(&random);

		assert_true(unit > 0 && unit <= 1);
		sum += unit;
	}
	assert_true(fabs(sum / 100000 - 0.5) < 0.01);
}
