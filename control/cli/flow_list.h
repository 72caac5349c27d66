// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl flow list prints flows page by page, as the pages arrive. weirctl flow delete and flow
// clear delete a flow, or all flows of a backend.
#pragma once

#include "command.h"

int weir_flow_list_build(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Run flow list. Returns enum weir_cli_exit.
int weir_flow_list_run(struct weir_cli *cli, const struct weir_cli_command *command);

// Print how many flows were deleted.
void weir_flow_delete_show(const struct weir_cli *cli, json_t *result);
