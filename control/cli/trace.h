// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl trace: shows the next packets of a flow, and the decision of each stage for each packet.
// Uses a capture with the flow as its filter.
#pragma once

#include "command.h"

// Run the trace. Returns enum weir_cli_exit. commands.c builds the filter of the request.
int weir_trace_run(struct weir_cli *cli, const struct weir_cli_command *command);
