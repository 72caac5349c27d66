// SPDX-License-Identifier: BSD-3-Clause
//
// weirctl without main(): parses a command line, runs the command, and returns the exit status.
// Tests also call weir_cli_main.
#pragma once

#include <stdio.h>

// environment_run_dir: value of the environment variable WEIR_RUN_DIR, or NULL. Returns enum
// weir_cli_exit.
int weir_cli_main(int argc, char **argv, const char *environment_run_dir, FILE *out, FILE *err);
