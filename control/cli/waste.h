// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl service waste: the utilization of each backend as a bar, and its gap to the most used
// one: figure 20-1 of the SRE book.
#pragma once

#include "command.h"

// Waits up to some seconds for agents that were not measuring utilization.
int weir_waste_run(struct weir_cli *cli, const struct weir_cli_command *command);
void weir_waste_show(const struct weir_cli *cli, json_t *result);
// width: of the whole chart, in columns.
void weir_waste_print(FILE *out, const json_t *result, int width, bool colour);
