// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl config check: checks a configuration file by the rules of the daemons, without a
// connection to a daemon.
#pragma once

#include "command.h"

int weir_check_run(struct weir_cli *cli, const struct weir_cli_command *command);
