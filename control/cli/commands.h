// SPDX-License-Identifier: BSD-3-Clause
//
// The commands of weirctl: one row each. The parser and --help are made from it, and tests compare
// docs/reference/cli.md and the bash completion with it.
#pragma once

#include "command.h"

extern const struct weir_cli_command weir_cli_commands[];
extern const int weir_cli_command_count;

// Find the command of these words. Returns NULL and one line in why, with the commands that
// exist instead.
const struct weir_cli_command *weir_cli_command_find(
	const char *object, const char *verb, char *why, size_t why_bytes);
