// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl service waste: prints a bar for each backend, with its utilization and the gap to the
// most used backend. Like figure 20-1 of the SRE book.
#pragma once

#include "command.h"

// Run the command. Waits some seconds for reports of agents that begin to measure utilization.
int weir_waste_run(struct weir_cli *cli, const struct weir_cli_command *command);
void weir_waste_show(const struct weir_cli *cli, json_t *result);
// Print the chart. width: columns of the whole chart.
void weir_waste_print(FILE *out, const json_t *result, int width, bool colour);
