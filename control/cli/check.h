// SPDX-License-Identifier: BSD-3-Clause
//
// config check: reads a configuration with the same parser as the daemons, needs none of them.
#pragma once

#include "commands.h"

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command);

// Print a list of errors as the control API gives it: [{line, column, path, reason}], one line
// each: FILE:LINE:COLUMN: PATH: reason. Anything else prints nothing.
void weir_check_print_errors(FILE *out, const char *file, const json_t *errors);
