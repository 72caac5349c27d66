// SPDX-License-Identifier: BSD-3-Clause
//
// config check: parses a configuration as the daemons do, without needing them.
#pragma once

#include "command.h"

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command);
