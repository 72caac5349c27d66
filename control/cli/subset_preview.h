// SPDX-License-Identifier: BSD-3-Clause
//
// subset preview: how many clients each backend would have. Computed with the daemon's code; needs
// no daemon.
#pragma once

#include "command.h"

int weir_subset_preview_run(struct weir_cli *cli, const struct weir_cli_command *command);
