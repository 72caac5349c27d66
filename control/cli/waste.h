// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl service waste: prints a bar for each backend, with its utilization and the gap to the
// most used backend, as in figure 20-1 of the book "Site Reliability Engineering".
#pragma once

#include "command.h"

// Run the command. Waits up to some seconds for reports of agents that start to measure
// utilization. Returns enum weir_cli_exit.
int weir_waste_run(struct weir_cli *cli, const struct weir_cli_command *command);
void weir_waste_show(const struct weir_cli *cli, json_t *result);
// Print the bars. width: width of a line, in columns.
void weir_waste_print(FILE *out, const json_t *result, int width, bool colour);
