// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl doctor: runs the checks of doctor.h. If weir-control is running, the checks also use its
// state, except with --root.
#pragma once

#include "command.h"

// Run the command. Returns 0, 1 (warnings) or 2 (faults).
int weir_doctor_command_run(struct weir_cli *cli, const struct weir_cli_command *command);
