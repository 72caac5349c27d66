// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl import: converts configuration files of other load balancers.
#pragma once

#include "command.h"

int weir_import_ipvs_run(struct weir_cli *cli, const struct weir_cli_command *command);
int weir_import_keepalived_run(struct weir_cli *cli, const struct weir_cli_command *command);
