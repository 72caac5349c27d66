// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "help_text.h"
#include "sim_lab.h"

#define ARGUMENTS_MAX 20

// line: arguments separated by spaces.
static int read_line(const char *line, struct weir_sim_options *options, char *why) {
	static char text[256]; // the parsed options refer to this text
	char *argv[ARGUMENTS_MAX + 1] = {text};
	char *rest;
	int argc = 0;

	snprintf(text, sizeof(text), "weir-sim %s", line);
	for (char *word = strtok_r(text, " ", &rest); word != NULL && argc < ARGUMENTS_MAX;
		word = strtok_r(NULL, " ", &rest)) {
		argv[argc++] = word;
	}
	return weir_sim_options_parse(argc, argv, options, why, 256);
}

TEST(options_of_run_are_read) {
	struct weir_sim_options options;
	char why[256];

	assert_int_equal(read_line("run sre20 --seed 7 --seeds 3 --jobs 2 --json --out o "
				   "--format png --quiet --dir d",
				 &options, why),
		0);
	assert_int_equal(options.command, WEIR_SIM_COMMAND_RUN);
	assert_string_equal(options.operand, "sre20");
	assert_int_equal(options.seed, 7);
	assert_int_equal(options.seeds, 3);
	assert_int_equal(options.jobs, 2);
	assert_true(options.json && options.quiet && !options.no_plots);
	assert_string_equal(options.out, "o");
	assert_int_equal(options.format, WEIR_SIM_FORMAT_PNG);
	assert_string_equal(weir_sim_format_name(options.format), "png");
	assert_string_equal(options.directory, "d");
	assert_int_equal(read_line("list", &options, why), 0);
	assert_int_equal(options.command, WEIR_SIM_COMMAND_LIST);
}

TEST(options_invalid_ones_are_refused_with_a_reason) {
	static const struct {
		const char *line, *reason;
	} cases[] = {
		{"", "no command is given; use run, list, check or keys"},
		{"walk", "unknown command \"walk\"; use run, list, check or keys"},
		{"run", "an argument is missing; use weir-sim run SCENARIO"},
		{"run a b", "too many arguments; use weir-sim run SCENARIO"},
		{"list a", "too many arguments; use weir-sim list"},
		{"run a --seed 0", "--seed: \"0\" is out of range; use 1 to 18446744073709551615"},
		{"run a --seed x",
			"--seed: \"x\" is not a whole number; use 1 to 18446744073709551615"},
		{"run a --seed -1",
			"--seed: \"-1\" is not a whole number; use 1 to 18446744073709551615"},
		{"run a --seeds 1001", "--seeds: \"1001\" is out of range; use 1 to 1000"},
		{"run a --jobs 2x", "--jobs: \"2x\" is not a whole number; use 1 to 256"},
		{"run a --out o --format gif", "--format: \"gif\" is not known; use svg or png"},
		{"run a --no-plots", "--format and --no-plots need --out DIR"},
		{"run a --colour", "unknown option --colour"},
		{"run a --out", "--out needs a value; use --out DIR"},
		{"check a --seed 3", "--seed is not an option of check; leave it out"},
		{"keys --dir d", "--dir is not an option of keys; leave it out"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct weir_sim_options options;
		char why[256] = "";

		assert_int_equal(read_line(cases[i].line, &options, why), -EINVAL);
		assert_string_equal(why, cases[i].reason);
	}
}

TEST(options_help_of_every_command_has_an_example) {
	struct weir_sim_options options;
	char why[256], help[WEIR_HELP_BYTES];

	for (int i = 0; i <= WEIR_SIM_COMMAND_COUNT; i++) {
		assert_non_null(strstr(
			weir_sim_help((enum weir_sim_command)i, help, sizeof(help)), "Example"));
	}
	assert_int_equal(read_line("run --help", &options, why), 0);
	assert_true(options.help);
	assert_int_equal(options.command, WEIR_SIM_COMMAND_RUN);
	assert_int_equal(read_line("--version", &options, why), 0);
	assert_true(options.version);
}
