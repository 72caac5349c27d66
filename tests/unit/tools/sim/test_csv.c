// SPDX-License-Identifier: BSD-3-Clause
#include "csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "sim_output.h"
#include "summary.h"

// Counts the lines of a table. Checks that each line has as many fields as the first line.
static uint32_t count_lines(const char *text) {
	uint32_t lines = 0, fields = 0, of_first = 0;

	for (; *text != '\0'; text++) {
		fields += *text == ',';
		if (*text == '\n') {
			of_first = lines == 0 ? fields : of_first;
			assert_int_equal(fields, of_first);
			fields = 0;
			lines++;
		}
	}
	return lines;
}

static void check_file(
	const struct lab_output *output, const char *name, uint32_t lines, const char *line) {
	char *text = lab_output_read(output, name);

	assert_non_null(text);
	assert_int_equal(count_lines(text), lines);
	if (strstr(text, line) == NULL) {
		fail_msg("%s has no line %s:\n%s", name, line, text);
	}
	free(text);
}

TEST(csv_files_have_all_results) {
	struct lab_output output;
	char why[256];

	lab_output_make(&output);
	output.results->result[0]->measure[0].backend[0].listed = false;
	assert_int_equal(
		weir_sim_csv_write(output.directory, output.file, output.results, why, sizeof(why)),
		0);
	check_file(&output, "summary.csv", 1 + 2 * WEIR_SIM_METRIC_COUNT,
		"b,measured,spread,2.625,2.5,2.75\n");
	check_file(&output, "backends.csv", 4 * 3, "a,5,measured,2,1,10.0000,20,0,2\n");
	check_file(&output, "series.csv", 1 + 4 * 2, "b,4,10,100,0,10,0,0,0,0,0.0000,");
	lab_output_free(&output);
}

TEST(csv_missing_directory_is_named) {
	struct lab_output output;
	char why[256] = "";

	lab_output_make(&output);
	assert_int_equal(weir_sim_csv_write("/no/such/directory", output.file, output.results, why,
				 sizeof(why)),
		-ENOENT);
	assert_string_equal(why, "/no/such/directory/summary.csv");
	lab_output_free(&output);
}
