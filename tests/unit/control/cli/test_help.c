// SPDX-License-Identifier: BSD-3-Clause
#include "cli_lab.h"
#include "commands.h"

TEST(help_names_every_command) {
	struct outcome outcome = RUN(NULL, "--help");

	assert_int_equal(outcome.status, 0);
	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];
		char line[160];

		snprintf(line, sizeof(line), "\n  %s%s%s%s%s  ", command->object,
			command->verb != NULL ? " " : "",
			command->verb != NULL ? command->verb : "",
			command->arguments[0] ? " " : "", command->arguments);
		expect_contains(outcome.out, line);
		expect_contains(outcome.out, command->summary);
	}
	expect_contains(outcome.out, "Exit status: 0 done, 1 refused, 2 usage, 3 cannot reach");
	free_outcome(&outcome);
	outcome = RUN(NULL, "help");
	assert_int_equal(outcome.status, 0);
	free_outcome(&outcome);
}

TEST(help_of_each_command_has_usage_and_example) {
	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];
		// The command "version" has no verb, so --help is passed twice, which is
		// allowed.
		struct outcome outcome = RUN("/nonexistent", (char *)command->object,
			command->verb ? (char *)command->verb : "--help", "--help");

		assert_int_equal(outcome.status, 0);
		assert_string_equal(outcome.err, "");
		expect_contains(outcome.out, "Usage: weirctl [OPTION]... ");
		expect_contains(outcome.out, command->arguments);
		expect_contains(outcome.out, command->summary);
		expect_contains(outcome.out, command->example);
		free_outcome(&outcome);
	}
}

TEST(help_of_an_object_lists_its_verbs) {
	struct outcome outcome = RUN(NULL, "backend", "-h");

	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "backend show");
	expect_contains(outcome.out, "backend maintenance");
	expect_contains(outcome.out, "Example: weirctl backend");
	assert_null(strstr(outcome.out, "weight set"));
	free_outcome(&outcome);
	outcome = RUN(NULL, "help", "backend");
	assert_int_equal(outcome.status, 0);
	expect_contains(outcome.out, "Usage: weirctl [OPTION]... backend VERB");
	free_outcome(&outcome);
	outcome = RUN(NULL, "backnd", "--help");
	assert_int_equal(outcome.status, 2);
	expect_contains(outcome.err, "did you mean \"backend\"");
	free_outcome(&outcome);
}
