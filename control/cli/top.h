// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl top: shows services, backends, workers, drops and events, live on a terminal or once.
#pragma once

#include "command.h"

int weir_top_run(struct weir_cli *cli, const struct weir_cli_command *command);
