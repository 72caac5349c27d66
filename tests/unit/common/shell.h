// SPDX-License-Identifier: BSD-3-Clause
//
// Commands for the shell: what a test needs of the machine, such as interfaces and files.
//
// Threads: any.
#pragma once

#include <stdbool.h>

// Run a command. Returns whether it succeeded; else it stands on standard error.
bool shell_runs(const char *format, ...) __attribute__((format(printf, 1, 2)));

// In a test of cmocka, which fails with the command.
#define SHELL(...) assert_true(shell_runs(__VA_ARGS__))
