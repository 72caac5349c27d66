// SPDX-License-Identifier: BSD-3-Clause
//
// Declares a command of weirctl, and functions that all commands share: requests to weir-control,
// and output. commands.h has the table of commands.
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
	WEIR_CLI_FLOWS_LEFT = 4, // flows were open at the deadline of a drain
};

struct weir_cli { // one run of weirctl
	const struct weir_cli_options *options;
	FILE *out, *err;
	const char *const *words; // words after OBJECT and VERB
	int count;
	struct weir_client *client; // NULL for local commands
	bool unpublished; // weir-control has not published a change of this request yet
	// Description of a change that walks the flow tables or the affinity table, such as
	// "deleting flows"; NULL = the request is no such change.
	const char *walk;
	bool walks_on; // the request timed out, and weir-control continues to process it
	char printed_unpublished[512]; // the reason that was printed last for an unpublished
				       // change; "" = all changes are published
};

struct weir_cli_command {
	const char *object;
	const char *verb; // NULL = the command consists of the object only
	const char *arguments; // text for the usage line, "" = none
	const char *summary; // one line of help
	const char *text; // more lines of help; the last line ends with "\n"; NULL = none
	const char *example;
	// command of the control API; NULL = `run` must be set, and sends its own requests, if any
	const char *request;
	short words_min, words_max;
	unsigned options; // enum weir_cli_option

	// Fills in the arguments of the request. Returns 0, -EINVAL (invalid usage) or another
	// negative errno (a file cannot be read), with one line in why.
	int (*build)(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
	// Prints the result as text; NULL = `run` prints the result itself.
	void (*show)(const struct weir_cli *cli, json_t *result);
	// Runs the command; NULL = send the request and show the result. If request is set, `build`
	// has accepted the arguments, and cli->client is connected. Returns enum weir_cli_exit.
	int (*run)(struct weir_cli *cli, const struct weir_cli_command *command);
	bool change; // requires administrator rights: see docs/reference/control-api.md
};

// Send a request and extract the result from the answer. Prints errors, and a warning if changes
// are not published yet. *ret: the result, owned by the caller. Returns enum weir_cli_exit.
int weir_cli_request(struct weir_cli *cli, const json_t *request, json_t **ret);
// Like weir_cli_request. If weir-control does not answer, prints that it may still make the change.
int weir_cli_change(struct weir_cli *cli, const json_t *request, json_t **ret);
// Like weir_cli_request, but if the requested object does not exist, sets *ret to NULL and returns
// WEIR_CLI_DONE.
int weir_cli_request_if_any(struct weir_cli *cli, const json_t *request, json_t **ret);

// Add the value of an option to a request. text: the value; NULL = the option was not given:
// nothing is added. option: its name, for the error message. Returns 0, or -EINVAL and one line in
// why.
int weir_cli_set_text(json_t *object, const char *key, const char *option, const char *text,
	char *why, size_t why_bytes);
// Write one line about an unknown word into why, with all known names and the name that the user
// probably meant. meant: this name; NULL = suggest the most similar name, if it is similar enough.
// what: the kind of name, such as "policy". Returns -EINVAL.
int weir_cli_unknown(const char *what, const char *word, const char *meant,
	const char *const names[], uint32_t count, char *why, size_t why_bytes);
// Add --service and --backend to a request; the value of --backend may be "SERVICE/NAME". Returns
// 0, or -EINVAL and one line in why.
int weir_cli_set_owner(
	const struct weir_cli_options *options, json_t *object, char *why, size_t why_bytes);

// Adds the backend "[SERVICE/]NAME" to a request; "SERVICE/" without a name adds only the service.
// Returns 0, or -EINVAL if the word has another form or is not valid UTF-8.
int weir_cli_set_backend(json_t *object, const char *word);

// Build the request of a command whose arguments are valid. Returns NULL if out of memory.
json_t *weir_cli_build(const struct weir_cli *cli, const struct weir_cli_command *command);
// Print a result as text, or as JSON with --json. Takes ownership of the result.
void weir_cli_show(
	const struct weir_cli *cli, const struct weir_cli_command *command, json_t *result);

// Print JSON with indentation; non-ASCII characters are escaped.
void weir_cli_print_json(FILE *out, const json_t *json);

// Print a list of errors or warnings of the control API, [{line, column, path, reason}], one per
// line: FILE:LINE:COLUMN:MARK PATH: reason. Unknown lines, columns and paths are left out. mark: ""
// or " warning:". Prints nothing if errors is not an array.
void weir_cli_print_errors(FILE *out, const char *file, const char *mark, const json_t *errors);

void weir_cli_wait_ms(int ms);
