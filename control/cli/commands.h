// SPDX-License-Identifier: BSD-3-Clause
//
// The commands of weirctl: a table with a row for each command. The parser and --help use this
// table, and tests compare docs/reference/cli.md and the bash completion with it.
#pragma once

#include "command.h"

extern const struct weir_cli_command weir_cli_commands[];
extern const int weir_cli_command_count;

// Find the command for an object and a verb. verb: NULL = no verb was given. If there is no such
// command, returns NULL and writes one line with existing commands into why.
const struct weir_cli_command *weir_cli_command_find(
	const char *object, const char *verb, char *why, size_t why_bytes);
