// SPDX-License-Identifier: BSD-3-Clause
//
// config check: reads a configuration with the same parser as the daemons, needs none of them.
#pragma once

#include "command.h"

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command);
