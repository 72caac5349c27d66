// SPDX-License-Identifier: BSD-3-Clause
#include "plot.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim_lab.h"
#include "sim_output.h"

static void check_pictures(const struct lab_output *output, const char *format, const char *begin) {
	for (int kind = 0; kind < WEIR_SIM_PLOT_COUNT; kind++) {
		char name[128];
		char *text;

		snprintf(name, sizeof(name), "made-%s.%s",
			weir_sim_plot_name((enum weir_sim_plot)kind), format);
		text = lab_output_read(output, name);
		if (text == NULL) {
			fail_msg("%s is missing", name);
			return;
		}
		assert_memory_equal(text, begin, strlen(begin));
		assert_true(strlen(begin) > 5 || strlen(text) > 1000 || strcmp(format, "png") == 0);
		free(text);
	}
}

// The test runs gnuplot, which fails if a script is invalid.
TEST(plot_of_every_kind_is_drawn) {
	struct lab_output output;
	char why[512] = "", *picture;
	int r;

	lab_output_make(&output);
	r = weir_sim_plots_draw(
		output.directory, "svg", output.file, output.results, why, sizeof(why));
	if (r < 0) {
		fail_msg("%d: %s", r, why);
	}
	check_pictures(&output, "svg", "<?xml");
	picture = lab_output_read(&output, "made-backends.svg");
	assert_non_null(strstr(picture, "T\\ `echo x`")); // gnuplot did not run the command
	free(picture);
	assert_int_equal(weir_sim_plots_draw(output.directory, "png", output.file, output.results,
				 why, sizeof(why)),
		0);
	check_pictures(&output, "png", "\x89PNG");
	lab_output_free(&output);
}

TEST(plot_without_gnuplot_writes_the_scripts) {
	struct lab_output output;
	char *path = strdup(getenv("PATH"));
	char *script;
	char why[512] = "";

	lab_output_make(&output);
	assert_int_equal(setenv("PATH", output.directory, 1), 0);
	assert_int_equal(weir_sim_plots_draw(output.directory, "svg", output.file, output.results,
				 why, sizeof(why)),
		-ENOENT);
	assert_int_equal(setenv("PATH", path, 1), 0);
	free(path);
	script = lab_output_read(&output, "made-errors.gp");
	assert_non_null(script);
	assert_non_null(strstr(script, "Made by hand"));
	free(script);
	script = lab_output_read(&output, "made-backends.gp");
	assert_non_null(strstr(script, "'T\\ `echo x`'"));
	free(script);
	assert_null(lab_output_read(&output, "made-errors.svg"));
	lab_output_free(&output);
}

// The plot shows the CPU of each backend and of the most loaded backend, in descending order.
TEST(plot_of_used_cpu_has_the_wasted_part) {
	struct lab_output output;
	char why[512] = "", *script, *data;
	double at, used, most, first = -1, last = -1;
	uint32_t lines = 0;

	lab_output_make(&output);
	assert_int_equal(weir_sim_plots_draw(output.directory, "svg", output.file, output.results,
				 why, sizeof(why)),
		0);
	script = lab_output_read(&output, "made-used.gp");
	assert_non_null(script);
	data = strstr(script, "$data0 << END\n");
	assert_non_null(data);
	for (data += strlen("$data0 << END\n"); sscanf(data, "%lf %lf %lf", &at, &used, &most) == 3;
		data = strchr(data, '\n') + 1) {
		first = lines == 0 ? used : first;
		assert_true(at == (lines + 1) / 2 && most == first && (last < 0 || used <= last));
		lines++;
		last = used;
	}
	assert_true(lines > 1 && last < first);
	assert_non_null(strstr(script, "title \"wasted\""));
	free(script);
	lab_output_free(&output);
}

// A logarithmic axis without data makes gnuplot fail.
TEST(plot_that_fails_does_not_stop_the_others) {
	struct lab_output output;
	char why[512] = "", *picture;

	lab_output_make(&output);
	for (uint32_t i = 0; i < output.results->count; i++) {
		output.results->result[i]->sample[0].p99_ms = NAN;
		output.results->result[i]->sample[1].p99_ms = NAN;
	}
	assert_int_equal(weir_sim_plots_draw(output.directory, "svg", output.file, output.results,
				 why, sizeof(why)),
		-EIO);
	assert_non_null(strstr(why, "made-latency.gp"));
	picture = lab_output_read(&output, "made-moves.svg"); // the last plot
	assert_non_null(picture);
	free(picture);
	lab_output_free(&output);
}

TEST(plot_missing_directory_is_named) {
	struct lab_output output;
	char why[512] = "";

	lab_output_make(&output);
	assert_int_equal(weir_sim_plots_draw("/no/such/directory", "svg", output.file,
				 output.results, why, sizeof(why)),
		-EIO);
	assert_non_null(strstr(why, "/no/such/directory/made-spread.gp"));
	lab_output_free(&output);
}
