// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "help_text.h"
#include "options.h"
#include "test.h"

#define WORDS 12

struct refusal {
	const char *words[WORDS];
	const char *why;
};

static const struct refusal refusals[] = {
	{{NULL}, "--config is missing; use --config FILE"},
	{{"--config", "", NULL}, "--config: is empty; use --config FILE"},
	{{"--config", NULL}, "--config needs a value; use --config FILE"},
	{{"--config", "f", "--verbose", NULL}, "unknown option --verbose"},
	{{"--config", "f", "-x", NULL}, "unknown option"},
	{{"--config", "f", "extra", NULL}, "unexpected argument \"extra\""},
	{{"--config", "f", "--log-level", "loud", NULL},
		"--log-level: \"loud\" is not known; use error, warn, info or debug"},
	{{"--config", "f", "--log-format", "xml", NULL},
		"--log-format: \"xml\" is not known; use auto, text or json"},
	{{"--config", "f", "--run-dir", "", NULL}, "--run-dir: is empty; use --run-dir DIR"},
	{{"--config", "f", "--run-dir",
		 "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "aaaaaaaaaaaaaa",
		 NULL},
		"--run-dir: has 95 bytes; use 1 to 86 bytes"},
};

static int parse(
	const char *const *words, struct weir_control_options *ret, char *why, size_t bytes) {
	char *argv[WORDS + 2] = {(char *)"weir-control"};
	int argc = 1;

	for (int i = 0; words[i] != NULL; i++) {
		argv[argc++] = (char *)words[i];
	}
	return weir_control_options_parse(argc, argv, ret, why, bytes);
}

TEST(options_invalid_ones_are_refused_with_a_reason) {
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct weir_control_options options = {.config = "untouched"};
		char why[256] = "";

		assert_int_equal(parse(refusals[i].words, &options, why, sizeof(why)), -EINVAL);
		if (strstr(why, refusals[i].why) == NULL) {
			fail_msg("%zu: \"%s\" lacks \"%s\"", i, why, refusals[i].why);
		}
		assert_string_equal(options.config, "untouched");
	}
}

TEST(options_have_defaults) {
	const char *words[] = {"--config", "f", NULL};
	struct weir_control_options options;
	char why[256];

	assert_int_equal(parse(words, &options, why, sizeof(why)), 0);
	assert_string_equal(options.config, "f");
	assert_string_equal(options.run_dir, "/run/weir");
	assert_null(options.user);
	assert_null(options.group);
	assert_int_equal(options.log_level, WEIR_LOG_INFO);
	assert_false(options.data_path_checks);
	assert_false(options.check_dataplane);
	assert_false(options.help || options.version);
}

TEST(options_are_all_accepted) {
	const char *words[] = {"--config=f", "--run-dir=/r", "--user", "u", "--group", "g",
		"--data-path-checks", "--check-dataplane", "--log-level", "debug", NULL};
	struct weir_control_options options;
	char why[256];

	assert_int_equal(parse(words, &options, why, sizeof(why)), 0);
	assert_string_equal(options.run_dir, "/r");
	assert_string_equal(options.user, "u");
	assert_string_equal(options.group, "g");
	assert_int_equal(options.log_level, WEIR_LOG_DEBUG);
	assert_true(options.data_path_checks);
	assert_true(options.check_dataplane);
}

TEST(options_help_and_version_need_no_config) {
	const char *help[] = {"--help", NULL}, *version[] = {"--version", NULL};
	struct weir_control_options options;
	char why[256];

	assert_int_equal(parse(help, &options, why, sizeof(why)), 0);
	assert_true(options.help);
	assert_int_equal(parse(version, &options, why, sizeof(why)), 0);
	assert_true(options.version);
}

TEST(options_usage_names_every_option) {
	char buffer[WEIR_HELP_BYTES];
	const char *usage = weir_control_help(buffer, sizeof(buffer));

	for (const char *const *name = (const char *const[]){"--config", "--run-dir", "--user",
		     "--group", "--data-path-checks", "--check-dataplane", "--log-level",
		     "--log-format", "--version", "--help", "Example:", NULL};
		*name != NULL; name++) {
		assert_non_null(strstr(usage, *name));
	}
}
