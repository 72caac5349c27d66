// SPDX-License-Identifier: BSD-3-Clause
//
// trace: shows the next packets of a flow, and what each stage decided for them. A capture with the
// flow as its filter.
#pragma once

#include "command.h"

// Returns enum weir_cli_exit. commands.c builds the filter of the request, as for flow lookup.
int weir_trace_run(struct weir_cli *cli, const struct weir_cli_command *command);
