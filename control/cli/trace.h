// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl trace: shows the next packets of a flow, and what each stage of the dataplane decided for
// each packet. Uses a capture with the flow as its filter.
#pragma once

#include "command.h"

// Run the trace. commands.c has built the request with the filter. Returns enum weir_cli_exit.
int weir_trace_run(struct weir_cli *cli, const struct weir_cli_command *command);
