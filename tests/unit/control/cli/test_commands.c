// SPDX-License-Identifier: BSD-3-Clause
#include "cli_lab.h"
#include "commands.h"

TEST(every_row_is_complete) {
	assert_true(weir_cli_command_count >= 16);
	for (int i = 0; i < weir_cli_command_count; i++) {
		const struct weir_cli_command *command = &weir_cli_commands[i];

		assert_true(command->object[0] && command->summary[0]);
		assert_memory_equal(command->example, "weirctl ", 8);
		expect_contains(command->example, command->object);
		assert_true(command->words_min <= command->words_max);
		assert_true(command->words_max + 2 <= WEIR_OPERANDS_MAX);
		assert_true(command->run || (command->request && command->show));
		assert_true(!command->request || command->build);
		if (command->text != NULL) {
			assert_int_equal(command->text[strlen(command->text) - 1], '\n');
		}
		for (int j = 0; j < i; j++) {
			assert_false(strcmp(command->object, weir_cli_commands[j].object) == 0 &&
				     command->verb && weir_cli_commands[j].verb &&
				     strcmp(command->verb, weir_cli_commands[j].verb) == 0);
		}
	}
}

TEST(find_returns_the_command_or_the_nearest) {
	const struct weir_cli_command *command;
	char why[512];

	command = weir_cli_command_find("weight", "set", why, sizeof(why));
	assert_non_null(command);
	assert_string_equal(command->request, "weight.set");
	command = weir_cli_command_find("version", NULL, why, sizeof(why));
	assert_non_null(command);
	assert_null(weir_cli_command_find("wieght", "set", why, sizeof(why)));
	assert_string_equal(why,
		"unknown object \"wieght\"; did you mean \"weight\"? available: service, vip, "
		"backend, "
		"host, "
		"weight, "
		"canary, subset, policy, flow, affinity, worker, port, stats, top, capture, trace, "
		"config, "
		"audit, "
		"import, health, status, doctor, version");
	assert_null(weir_cli_command_find("flow", "cuont", why, sizeof(why)));
	assert_string_equal(why,
		"unknown flow verb \"cuont\"; did you mean \"count\"? available: count, lookup, "
		"list, delete, clear, steals");
	assert_null(weir_cli_command_find("flow", NULL, why, sizeof(why)));
	assert_string_equal(
		why, "\"flow\" needs a verb: count, lookup, list, delete, clear, steals");
}

TEST(request_returns_the_result) {
	static const struct server_answer answers[] = {
		{"*", "{\"ok\": true, \"result\": 7}\n{\"ok\": true}"}, {0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	const struct weir_cli_options options = {0};
	struct weir_cli cli = {.options = &options, .out = stdout, .err = stderr};
	json_t *request = json_pack("{s:s}", "command", "x"), *result;
	char why[256];

	assert_int_equal(
		weir_client_connect(server_folder(server), 5000, &cli.client, why, sizeof(why)), 0);
	assert_int_equal(weir_cli_request(&cli, request, &result), WEIR_CLI_DONE);
	assert_int_equal(json_integer_value(result), 7);
	json_decref(result);
	assert_int_equal(weir_cli_request(&cli, request, &result), WEIR_CLI_DONE);
	assert_true(json_is_null(result));
	weir_client_free(cli.client);
	json_decref(request);
	server_stop(server);
}
