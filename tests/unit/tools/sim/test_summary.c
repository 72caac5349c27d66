// SPDX-License-Identifier: BSD-3-Clause
#include "summary.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "sim_output.h"
#include "subset.h"

TEST(summary_ranges_over_seeds) {
	struct lab_output output;
	struct weir_sim_range range;

	lab_output_make(&output);
	range = weir_sim_range_of(output.results, 1, 0, WEIR_SIM_METRIC_SPREAD);
	assert_true(range.mean == 2.625 && range.least == 2.5 && range.most == 2.75);
	range = weir_sim_range_of(output.results, 0, 0, WEIR_SIM_METRIC_ERRORS);
	assert_true(range.mean == 25.0);
	range = weir_sim_range_of(output.results, 0, 0, WEIR_SIM_METRIC_FAILED);
	assert_true(range.mean == 10.0);
	lab_output_free(&output);
}

TEST(summary_table_has_a_row_per_variant) {
	struct lab_output output;
	char *text = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);

	lab_output_make(&output);
	weir_sim_summary_print(stream, output.file, output.results);
	fclose(stream);
	assert_non_null(strstr(text, "made: Made by hand\n2 seeds, starting at 4\n"));
	assert_non_null(strstr(text, "\na          1.62 (1.50-1.75)    25.0 %"));
	assert_non_null(strstr(text, "\nb          2.62 (2.50-2.75)"));
	assert_non_null(strstr(text, " 25.00 %   0.500      1-2\n"));
	free(text);
	lab_output_free(&output);
}

// The churn columns are shown only if clients have subsets and events affect backends.
TEST(summary_churn_has_separate_columns) {
	struct lab_output output;
	char *text = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);

	lab_output_make(&output);
	weir_sim_summary_print(stream, output.file, output.results);
	fflush(stream);
	assert_null(strstr(text, "replaced"));
	output.file->variant[1].subset.algorithm = WEIR_SUBSET_RANDOM;
	weir_sim_summary_print(stream, output.file, output.results);
	fclose(stream);
	assert_non_null(strstr(text, "  peak   replaced      least\n"));
	assert_non_null(strstr(text, "      1-2     2    25.00 %    12.50 %\n"));
	assert_non_null(strstr(text, "      1-2     2    75.00 %    12.50 %\n"));
	free(text);
	lab_output_free(&output);
}

TEST(summary_steals_have_separate_columns) {
	struct lab_output output;
	char *text = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);
	uint64_t *steals;

	lab_output_make(&output);
	weir_sim_summary_print(stream, output.file, output.results);
	fflush(stream);
	assert_null(strstr(text, "moved/s"));
	steals = output.results->result[2]->measure[0].totals.steals;
	steals[WEIR_SIM_STEAL_ASKED] = 100;
	steals[WEIR_SIM_STEAL_MOVED] = 50;
	steals[WEIR_SIM_STEAL_REFUSED] = 30;
	steals[WEIR_SIM_STEAL_SILENT] = 20;
	weir_sim_summary_print(stream, output.file, output.results);
	fclose(stream);
	assert_non_null(strstr(text, "  moved/s refused/s silent/s\n"));
	assert_non_null(strstr(text, "      1-2      0.0       0.0      0.0\n"));
	assert_non_null(strstr(text, "      1-2      2.5       1.5      1.0\n"));
	free(text);
	lab_output_free(&output);
}

TEST(summary_of_workers_shows_the_busiest) {
	struct lab_output output;
	char *text = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);

	lab_output_make(&output);
	output.file->variant[0].workers.count = 2;
	output.results->result[0]->measure[0].busiest = 1.25;
	output.results->result[1]->measure[0].busiest = 1.75;
	output.results->result[1]->measure[0].busiest_most = 3;
	weir_sim_summary_print(stream, output.file, output.results);
	fclose(stream);
	assert_null(strstr(text, "p99 ms"));
	assert_non_null(strstr(text, "variant  busiest (least-most)   worst    CPU  dropped"));
	assert_non_null(strstr(text, "\na           1.50 (1.25-1.75)     3.00    0 %  25.00 %"));
	free(text);
	lab_output_free(&output);
}

TEST(summary_infinite_spread_is_a_dash) {
	struct lab_output output;
	char *text = NULL;
	size_t bytes;
	FILE *stream = open_memstream(&text, &bytes);

	lab_output_make(&output);
	output.results->result[0]->measure[0].spread = INFINITY;
	weir_sim_summary_print(stream, output.file, output.results);
	fclose(stream);
	assert_null(strstr(text, "inf"));
	assert_non_null(strstr(text, "\na             -  "));
	free(text);
	lab_output_free(&output);
}

static double metric_value(json_t *json, size_t variant, const char *metric, const char *what) {
	json_t *entry = json_array_get(json_object_get(json, "variants"), variant);
	json_t *window = json_array_get(json_object_get(entry, "windows"), 0);
	json_t *metrics = json_object_get(window, "metrics");

	return json_real_value(json_object_get(json_object_get(metrics, metric), what));
}

TEST(summary_json_has_every_metric_of_every_seed) {
	struct lab_output output;
	json_t *json, *values, *runs;

	lab_output_make(&output);
	output.results->result[3]->measure[0].spread = INFINITY;
	json = weir_sim_summary_json(output.file, output.results);
	assert_string_equal(json_string_value(json_object_get(json, "scenario")), "made");
	assert_true(metric_value(json, 0, "spread", "mean") == 1.625);
	assert_true(metric_value(json, 0, "errors_percent", "most") == 25.0);
	for (int i = 0; i < WEIR_SIM_METRIC_COUNT; i++) {
		json_t *entry = json_array_get(json_object_get(json, "variants"), 0);
		json_t *window = json_array_get(json_object_get(entry, "windows"), 0);
		json_t *metric = json_object_get(json_object_get(window, "metrics"),
			weir_sim_metric_name((enum weir_sim_metric)i));

		assert_non_null(metric);
		values = json_object_get(metric, "values");
		assert_int_equal(json_array_size(values), 2);
	}
	runs = json_object_get(json_array_get(json_object_get(json, "variants"), 1), "runs");
	assert_int_equal(
		json_integer_value(json_object_get(json_array_get(runs, 1), "completed")), 150);
	// JSON has no infinity.
	values = json_array_get(json_object_get(json, "variants"), 1);
	values = json_array_get(json_object_get(values, "windows"), 0);
	values = json_object_get(json_object_get(values, "metrics"), "spread");
	assert_true(json_is_null(json_object_get(values, "mean")));
	json_decref(json);
	lab_output_free(&output);
}
