// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl subset preview: computes how many clients each backend would have. Uses the same code as
// weir-control, but does not connect to weir-control.
#pragma once

#include "command.h"

int weir_subset_preview_run(struct weir_cli *cli, const struct weir_cli_command *command);
