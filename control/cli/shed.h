// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend shed: ends connections of a backend that has more connections than the mean.
#pragma once

#include "command.h"

// Run the command: start a shed; with --dry-run, only show how many connections it would end; with
// --stop, stop the running shed. Returns enum weir_cli_exit.
int weir_shed_run(struct weir_cli *cli, const struct weir_cli_command *command);
// Build the request from the options. Returns 0, or -EINVAL and one line in why.
int weir_shed_build(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Print the state of a shed.
void weir_shed_show(const struct weir_cli *cli, json_t *shed);

// Write the state of a shed as one line for backend show, such as "running, 17 connections ended,
// 33 still above the mean". Returns text.
const char *weir_shed_text(const json_t *shed, char *text, size_t bytes);
