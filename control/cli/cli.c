// SPDX-License-Identifier: BSD-3-Clause
#include "cli.h"

#include <errno.h>
#include <string.h>

#include "commands.h"
#include "help.h"
#include "processes.h"
#include "standard_output.h"
#include "weir_version.h"

static int usage_error(FILE *err, const char *why, const struct weir_cli_command *command) {
	fprintf(err, "weirctl: %s\n", why);
	if (command != NULL) {
		weir_cli_help_usage(err, command);
	}
	fprintf(err, "See \"weirctl%s%s%s%s --help\".\n", command != NULL ? " " : "",
		command != NULL ? command->object : "",
		command != NULL && command->verb != NULL ? " " : "",
		command != NULL && command->verb != NULL ? command->verb : "");
	return WEIR_CLI_USAGE;
}

// Print a result. Returns WEIR_CLI_REFUSED if the data of a worker is missing from the result,
// otherwise WEIR_CLI_DONE.
static int show_result(
	struct weir_cli *cli, const struct weir_cli_command *command, json_t *result) {
	bool incomplete = json_is_true(json_object_get(result, "incomplete"));

	weir_cli_show(cli, command, result);
	if (incomplete) {
		fprintf(cli->err,
			"weirctl: the output is incomplete: a worker did not answer in time\n");
	}
	return incomplete ? WEIR_CLI_REFUSED : WEIR_CLI_DONE;
}

// If a weir-control is running, in this or another run directory, overwrite the message in why with
// a message that explains why weirctl cannot reach it. Returns why.
static const char *explain_absence(const struct weir_cli *cli, int error, char *why, size_t bytes) {
	struct weir_processes found;
	char text[512];

	if (error == -ENOENT || error == -ECONNREFUSED) {
		found = weir_processes_find("", WEIR_PROGRAM_CONTROL, cli->options->run_dir);
		if (weir_processes_explain(&found, WEIR_PROGRAM_CONTROL, cli->options->run_dir,
			    text, sizeof(text))) {
			snprintf(why, bytes, "%s", text);
		}
	}
	return why;
}

// Prepares for a request that walks tables of the workers, which can take longer than --timeout.
static void expect_walk(struct weir_cli *cli, const json_t *request) {
	const char *name = json_string_value(json_object_get(request, "command"));
	const bool flows = strcmp(name, "flow.clear") == 0;
	const bool clients = strcmp(name, "affinity.clear") == 0;

	if (flows || clients || strcmp(name, "affinity.show") == 0) {
		weir_client_set_timeout(cli->client, cli->options->tables_ms);
	}
	// After a timeout, the audit list shows the results of these two requests.
	cli->walk = flows ? "deleting flows" : clients ? "deleting affinity entries" : NULL;
}

static int run_request(struct weir_cli *cli, const struct weir_cli_command *command) {
	json_t *request = json_pack("{s:s}", "command", command->request);
	json_t *result;
	char why[512];
	int r;

	if (request == NULL) {
		fprintf(cli->err, "weirctl: out of memory\n");
		return WEIR_CLI_REFUSED;
	}
	r = command->build(cli, request, why, sizeof(why));
	if (r) {
		json_decref(request);
		if (r == -EINVAL) {
			return usage_error(cli->err, why, command);
		}
		fprintf(cli->err, "weirctl: %s\n", why);
		return WEIR_CLI_REFUSED;
	}
	r = weir_client_connect(
		cli->options->run_dir, cli->options->timeout_ms, &cli->client, why, sizeof(why));
	if (r) {
		fprintf(cli->err, "weirctl: %s\n", explain_absence(cli, r, why, sizeof(why)));
		json_decref(request);
		return WEIR_CLI_UNREACHABLE;
	}
	expect_walk(cli, request);
	if (command->run != NULL) {
		r = command->run(cli, command);
	} else {
		const bool change = command->change &&
				    strcmp(command->request, "config.diff") != 0 &&
				    strcmp(command->request, "affinity.show") != 0;

		r = (change ? weir_cli_change : weir_cli_request)(cli, request, &result);
		r = r == WEIR_CLI_DONE ? show_result(cli, command, result) : r;
	}
	json_decref(request);
	weir_client_free(cli->client);
	return r == WEIR_CLI_DONE && cli->unpublished ? WEIR_CLI_REFUSED : r;
}

static int run_command(const struct weir_cli_options *options,
	const struct weir_cli_command *command, FILE *out, FILE *err) {
	const int named = command->verb != NULL ? 2 : 1;
	struct weir_cli cli = {.options = options,
		.out = out,
		.err = err,
		.words = &options->line.operand[named],
		.count = options->line.operands - named};
	char why[256], name[64];

	if (cli.count < command->words_min) {
		return usage_error(err, "an argument is missing", command);
	}
	if (cli.count > command->words_max) {
		return usage_error(err, "too many arguments", command);
	}
	snprintf(name, sizeof(name), "%s%s%s", command->object, command->verb != NULL ? " " : "",
		command->verb != NULL ? command->verb : "");
	if (weir_cli_options_check(options, command->options, name, why, sizeof(why))) {
		return usage_error(err, why, command);
	}
	return command->request != NULL ? run_request(&cli, command) : command->run(&cli, command);
}

// Returns the command that is named before an invalid option in the line, or NULL.
static const struct weir_cli_command *command_of(const struct weir_command_line *line) {
	char why[512];

	return line->operands > 0
		       ? weir_cli_command_find(line->operand[0],
				 line->operands > 1 ? line->operand[1] : NULL, why, sizeof(why))
		       : NULL;
}

static int run_words(const struct weir_cli_options *options, FILE *out, FILE *err) {
	const char *object = options->line.operands > 0 ? options->line.operand[0] : NULL;
	const char *verb = options->line.operands > 1 ? options->line.operand[1] : NULL;
	const struct weir_cli_command *command;
	char why[512];

	if (options->line.version) {
		fprintf(out, "weirctl %s\n", WEIR_VERSION);
		return WEIR_CLI_DONE;
	}
	if (object == NULL || strcmp(object, "help") == 0) {
		if (verb != NULL && weir_cli_help_object(out, verb)) {
			return WEIR_CLI_DONE;
		}
		weir_cli_help_all(object != NULL || options->line.help ? out : err);
		return object != NULL || options->line.help ? WEIR_CLI_DONE : WEIR_CLI_USAGE;
	}
	if (options->line.help && verb == NULL && weir_cli_help_object(out, object)) {
		return WEIR_CLI_DONE;
	}
	command = weir_cli_command_find(object, verb, why, sizeof(why));
	if (command == NULL) {
		return usage_error(err, why, NULL);
	}
	if (options->line.help) {
		weir_cli_help_command(out, command);
		return WEIR_CLI_DONE;
	}
	return run_command(options, command, out, err);
}

int weir_cli_main(int argc, char **argv, const char *environment_run_dir, FILE *out, FILE *err) {
	struct weir_cli_options options;
	char why[256];
	int r;

	if (weir_cli_options_parse(argc, argv, environment_run_dir, &options, why, sizeof(why))) {
		return usage_error(err, why, command_of(&options.line));
	}
	r = run_words(&options, out, err);
	if (!weir_standard_output_finish("weirctl", out, err)) {
		return r ? r : WEIR_CLI_REFUSED;
	}
	return r;
}
