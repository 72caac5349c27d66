// SPDX-License-Identifier: BSD-3-Clause
//
// Text of --help, generated from the table of commands.
#pragma once

#include <stdbool.h>
#include <stdio.h>

#include "commands.h"

void weir_cli_help_all(FILE *out);
bool weir_cli_help_object(FILE *out, const char *object); // returns false if the object is unknown
void weir_cli_help_command(FILE *out, const struct weir_cli_command *command);
void weir_cli_help_usage(
	FILE *out, const struct weir_cli_command *command); // prints only the usage line
