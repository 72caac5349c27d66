// SPDX-License-Identifier: BSD-3-Clause
//
// flow list: prints page by page, as the pages arrive. flow delete: deletes one flow, or those of a
// backend.
#pragma once

#include "command.h"

int weir_flow_list_build(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Returns enum weir_cli_exit.
int weir_flow_list_run(struct weir_cli *cli, const struct weir_cli_command *command);

void weir_flow_delete_show(const struct weir_cli *cli, json_t *result);
