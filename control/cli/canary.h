// SPDX-License-Identifier: BSD-3-Clause
//
// The commands weirctl canary start, list, show and stop.
#pragma once

#include "command.h"

// Build the request of canary start from the options. Returns 0, or -EINVAL and one line in why.
int weir_canary_build_start(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Build the request of canary stop from the options. Returns 0, or -EINVAL and one line in why.
int weir_canary_build_stop(
	const struct weir_cli *cli, json_t *request, char *why, size_t why_bytes);
// Starts a canary; with --dry-run, only shows its steps. Returns enum weir_cli_exit.
int weir_canary_run_start(struct weir_cli *cli, const struct weir_cli_command *command);
void weir_canary_show_list(const struct weir_cli *cli, json_t *result);
// Prints the canaries of a result, each with all details.
void weir_canary_show_all(const struct weir_cli *cli, json_t *result);
void weir_canary_show_one(const struct weir_cli *cli, json_t *result);
