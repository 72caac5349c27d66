// SPDX-License-Identifier: BSD-3-Clause
//
// A command of weirctl, and what all commands use: requests to the daemon, output. The table of
// commands is in commands.h, above the files that carry them out.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "client.h"
#include "options.h"

enum weir_cli_exit {
	WEIR_CLI_DONE = 0,
	WEIR_CLI_REFUSED = 1,
	WEIR_CLI_USAGE = 2,
	WEIR_CLI_UNREACHABLE = 3,
};

struct weir_cli { // one run of weirctl
	const struct weir_cli_options *options;
	FILE *out, *err;
	const char *const *words; // behind object and verb
	int count;
	struct weir_client *client; // NULL for local commands
	bool unpublished; // the daemon could not publish yet what a request has changed
	char told[512]; // why not everything is published, as it was printed last; "" = all is
};

struct weir_cli_command {
	const char *object;
	const char *verb; // NULL = the object is the whole command
	const char *arguments; // as in the usage line, "" = none
	const char *summary; // one line
	const char *text; // more, ends with a line end; NULL = none
	const char *example;
	const char *request; // command of the control API; NULL = local
	short words_min, words_max;
	unsigned options; // enum weir_cli_option

	// Fill in the arguments of the request. Returns 0 or -EINVAL and one line in why.
	int (*build)(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
	// Print the result for people.
	void (*show)(const struct weir_cli *cli, json_t *result);
	// Instead of request, build and show. Returns enum weir_cli_exit.
	int (*run)(struct weir_cli *cli, const struct weir_cli_command *command);
	bool change; // needs more than to be let in: see docs/reference/control-api.md
};

// Send a request and take the result out of the answer; errors are printed, and that not everything
// is published yet. *ret is owned by the caller. Returns enum weir_cli_exit.
int weir_cli_request(struct weir_cli *cli, const json_t *request, json_t **ret);

// Put the text of an option (--OPTION) into a request; NULL: nothing is put. Returns 0 or -EINVAL
// and one line in why.
int weir_cli_set_text(json_t *object, const char *key, const char *option, const char *text,
	char *why, size_t why_bytes);
// Put --service and --backend into a request; --backend may be "SERVICE/NAME", as where a backend
// is an argument. Returns 0 or -EINVAL and one line in why.
int weir_cli_set_owner(
	const struct weir_cli_options *options, json_t *object, char *why, size_t why_bytes);

// The request of a command that was checked before. Returns NULL without memory.
json_t *weir_cli_build(const struct weir_cli *cli, const struct weir_cli_command *command);
// Print a result as it was asked for. Takes it.
void weir_cli_show(
	const struct weir_cli *cli, const struct weir_cli_command *command, json_t *result);

// Print JSON as it came, indented, ASCII only.
void weir_cli_print_json(FILE *out, const json_t *json);

// Print a list of errors or warnings as the control API gives it: [{line, column, path, reason}],
// one line each: FILE:LINE:COLUMN:MARK PATH: reason. mark is "" or " warning:". Anything else
// prints nothing.
void weir_cli_print_errors(FILE *out, const char *file, const char *mark, const json_t *errors);

void weir_cli_wait_ms(int ms); // sleeps
