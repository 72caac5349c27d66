// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend drain: begins the drain of a backend, and waits for its end if asked to. The
// drain itself is weir-control's: it goes on when weirctl ends.
#pragma once

#include "command.h"

int weir_drain_run(struct weir_cli *cli, const struct weir_cli_command *command);
