// SPDX-License-Identifier: BSD-3-Clause
//
// subset preview: how many clients each backend would have. Works it out with the code that the
// daemon uses; needs no daemon.
#pragma once

#include "command.h"

int weir_subset_preview_run(struct weir_cli *cli, const struct weir_cli_command *command);
