// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl capture start: writes packets with their actions to a pcapng file.
#pragma once

#include "command.h"

int weir_capture_build(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Run the command. Returns enum weir_cli_exit.
int weir_capture_run(struct weir_cli *cli, const struct weir_cli_command *command);
