// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl backend shed.
#pragma once

#include "command.h"

// Starts a shed; with --dry-run, shows what the shed would end; with --stop, stops the running
// shed.
int weir_shed_run(struct weir_cli *cli, const struct weir_cli_command *command);
// Build the request. Returns 0, or -EINVAL and one line in why.
int weir_shed_build(const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Print a shed.
void weir_shed_show(const struct weir_cli *cli, json_t *shed);

// Write a shed as one line for backend show: "running, 17 connections ended, 33 still above the
// mean". Returns text.
const char *weir_shed_text(const json_t *shed, char *text, size_t bytes);
