// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend drain: starts the drain of a backend, and waits for its end if requested.
// weir-control runs the drain, which continues when weirctl exits.
#pragma once

#include "command.h"

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command);
