// SPDX-License-Identifier: BSD-3-Clause
#include "histogram.h"

#include <stdlib.h>

#include "sim_lab.h"

static struct weir_sim_histogram *make(void) {
	struct weir_sim_histogram *histogram = calloc(1, sizeof(*histogram));

	assert_non_null(histogram);
	return histogram;
}

TEST(histogram_empty_is_0) {
	struct weir_sim_histogram *histogram = make();

	assert_true(weir_sim_histogram_quantile(histogram, 0.5) == 0);
	free(histogram);
}

TEST(histogram_error_is_below_a_64th_for_any_size) {
	for (uint64_t value = 1; value < UINT64_MAX / 3; value = value * 3 / 2 + 1) {
		struct weir_sim_histogram *histogram = make();

		weir_sim_histogram_add(histogram, value);
		lab_near(weir_sim_histogram_quantile(histogram, 0.5), (double)value, 1.0 / 64);
		free(histogram);
	}
}

TEST(histogram_quantiles_of_a_range) {
	struct weir_sim_histogram *histogram = make();

	for (uint64_t i = 1; i <= 100000; i++) {
		weir_sim_histogram_add(histogram, i * 1000);
	}
	lab_near(weir_sim_histogram_quantile(histogram, 0.5), 50000e3, 1.0 / 64);
	lab_near(weir_sim_histogram_quantile(histogram, 0.99), 99000e3, 1.0 / 64);
	lab_near(weir_sim_histogram_quantile(histogram, 1.0), 100000e3, 1.0 / 64);
	lab_near(weir_sim_histogram_quantile(histogram, 0.0), 1000, 1.0 / 64);
	assert_int_equal(histogram->count, 100000);
	lab_near(histogram->sum_ns / 100000, 50000.5e3, 1e-9);
	free(histogram);
}

TEST(histogram_accepts_0_and_the_largest) {
	struct weir_sim_histogram *histogram = make();

	weir_sim_histogram_add(histogram, 0);
	weir_sim_histogram_add(histogram, UINT64_MAX);
	assert_true(weir_sim_histogram_quantile(histogram, 0.5) == 0);
	lab_near(weir_sim_histogram_quantile(histogram, 1.0), 18446744073709551615.0, 1.0 / 64);
	free(histogram);
}
