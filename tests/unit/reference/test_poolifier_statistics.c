// SPDX-License-Identifier: BSD-3-Clause
//
// Statistics as poolifier keeps them: the window, what is asked for, and its rounding.
#include <math.h>
#include <stdlib.h>

#include "poolifier_statistics.h"
#include "test.h"

struct lab {
	struct weir_poolifier_measure measure;
	struct weir_poolifier_history history;
};

static void start(struct lab *f, uint32_t window, bool float32) {
	const struct weir_poolifier_options options = {.window = window, .float32 = float32};

	weir_poolifier_measure_init(&f->measure);
	assert_int_equal(weir_poolifier_history_init(&f->history, &options), 0);
}

static void add(struct lab *f, bool aggregate, bool average, bool median, double value) {
	const struct weir_poolifier_requirement need = {aggregate, average, median};

	weir_poolifier_measure_add(&f->measure, &f->history, &need, value);
}

TEST(window_drops_the_oldest_sample) {
	struct lab f;

	start(&f, 3, false);
	for (unsigned int i = 1; i <= 5; i++) {
		add(&f, true, true, false, i);
	}
	assert_true(f.measure.average == 4);
	assert_true(f.measure.aggregate == 15);
	assert_true(f.measure.minimum == 1 && f.measure.maximum == 5);
	assert_int_equal(f.measure.samples, 3);
	weir_poolifier_history_fini(&f.history);
}

TEST(median_of_an_even_window_is_the_mean_of_two) {
	struct lab f;

	start(&f, 4, false);
	add(&f, true, false, true, 9);
	assert_true(f.measure.median == 9);
	add(&f, true, false, true, 2);
	assert_true(f.measure.median == 5.5);
	add(&f, true, false, true, 4);
	assert_true(f.measure.median == 4);
	assert_true(isnan(f.measure.average));
	weir_poolifier_history_fini(&f.history);
}

TEST(what_is_not_asked_for_is_not_kept) {
	struct lab f;

	start(&f, 4, false);
	add(&f, false, true, true, 9);
	assert_false(f.measure.has_aggregate);
	assert_int_equal(f.measure.samples, 0);
	add(&f, true, false, false, 9);
	assert_true(f.measure.aggregate == 9);
	assert_int_equal(f.measure.samples, 0);
	assert_true(isnan(f.measure.average) && isnan(f.measure.median));
	weir_poolifier_history_fini(&f.history);
}

TEST(only_samples_are_rounded_to_float32) {
	struct lab f;

	start(&f, 4, true);
	add(&f, true, true, false, 0.1);
	assert_true(f.measure.average == (double)0.1f);
	assert_true(f.measure.aggregate == 0.1 && f.measure.minimum == 0.1);
	weir_poolifier_history_fini(&f.history);
}
