// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"

#define WORDS 12

struct refusal {
	const char *words[WORDS];
	const char *why;
};

static const struct refusal refusals[] = {
	{{NULL}, "--config FILE is missing"},
	{{"--config", "", NULL}, "--config FILE is missing"},
	{{"--config", NULL}, "--config needs a value"},
	{{"--config", "f", "--verbose", NULL}, "unknown option --verbose"},
	{{"--config", "f", "-x", NULL}, "unknown option"},
	{{"--config", "f", "extra", NULL}, "unexpected argument extra"},
	{{"--config", "f", "--log-level", "loud", NULL}, "must be error, warn, info or debug"},
	{{"--config", "f", "--run-dir", "", NULL}, "--run-dir: must be 1 to 92 bytes long"},
	{{"--config", "f", "--run-dir",
		 "/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
		 "aaaaaaaaaaaaaa",
		 NULL},
		"--run-dir: must be"},
};

static int parse(const char *const *words, struct weir_arguments *ret, char *why, size_t bytes) {
	char *argv[WORDS + 2] = {(char *)"weir-control"};
	int argc = 1;

	for (int i = 0; words[i] != NULL; i++) {
		argv[argc++] = (char *)words[i];
	}
	return weir_arguments_parse(argc, argv, ret, why, bytes);
}

static void arguments_bad_ones_are_refused_with_a_reason(void **state) {
	(void)state;
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++) {
		struct weir_arguments arguments = {.config = "untouched"};
		char why[256] = "";

		assert_int_equal(parse(refusals[i].words, &arguments, why, sizeof(why)), -EINVAL);
		if (strstr(why, refusals[i].why) == NULL) {
			fail_msg("%zu: \"%s\" lacks \"%s\"", i, why, refusals[i].why);
		}
		assert_string_equal(arguments.config, "untouched");
	}
}

static void arguments_have_defaults(void **state) {
	const char *words[] = {"--config", "f", NULL};
	struct weir_arguments arguments;
	char why[256];

	(void)state;
	assert_int_equal(parse(words, &arguments, why, sizeof(why)), 0);
	assert_string_equal(arguments.config, "f");
	assert_string_equal(arguments.run_dir, "/run/weir");
	assert_null(arguments.user);
	assert_null(arguments.group);
	assert_int_equal(arguments.log_level, WEIR_LOG_INFO);
	assert_false(arguments.help || arguments.version);
}

static void arguments_are_all_taken(void **state) {
	const char *words[] = {"--config=f", "--run-dir=/r", "--user", "u", "--group", "g",
		"--log-level", "debug", NULL};
	struct weir_arguments arguments;
	char why[256];

	(void)state;
	assert_int_equal(parse(words, &arguments, why, sizeof(why)), 0);
	assert_string_equal(arguments.run_dir, "/r");
	assert_string_equal(arguments.user, "u");
	assert_string_equal(arguments.group, "g");
	assert_int_equal(arguments.log_level, WEIR_LOG_DEBUG);
}

static void arguments_help_and_version_need_no_config(void **state) {
	const char *help[] = {"--help", NULL}, *version[] = {"--version", NULL};
	struct weir_arguments arguments;
	char why[256];

	(void)state;
	assert_int_equal(parse(help, &arguments, why, sizeof(why)), 0);
	assert_true(arguments.help);
	assert_int_equal(parse(version, &arguments, why, sizeof(why)), 0);
	assert_true(arguments.version);
}

static void arguments_usage_names_every_option(void **state) {
	const char *usage = weir_arguments_usage();

	(void)state;
	for (const char *const *name = (const char *const[]){"--config", "--run-dir", "--user",
		     "--group", "--log-level", "--version", "--help", "Example:", NULL};
		*name != NULL; name++) {
		assert_non_null(strstr(usage, *name));
	}
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(arguments_bad_ones_are_refused_with_a_reason),
		cmocka_unit_test(arguments_have_defaults),
		cmocka_unit_test(arguments_are_all_taken),
		cmocka_unit_test(arguments_help_and_version_need_no_config),
		cmocka_unit_test(arguments_usage_names_every_option),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
