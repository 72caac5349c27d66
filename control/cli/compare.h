// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl policy compare: shows how each policy that needs no reports distributes the recorded
// flows of a service. weir-control records and replays the flows.
#pragma once

#include "command.h"

void weir_compare_show(const struct weir_cli *cli, json_t *result);
int weir_compare_run(struct weir_cli *cli, const struct weir_cli_command *command);
