// SPDX-License-Identifier: BSD-3-Clause
//
// Shell commands that set up what a test needs, such as interfaces and files.
//
// Threads: any.
#pragma once

#include <stdbool.h>

// Run a command. Returns true if it succeeded; otherwise prints the command to standard error.
bool shell_runs(const char *format, ...) __attribute__((format(printf, 1, 2)));

// For cmocka tests: the test fails if the command fails.
#define SHELL(...) assert_true(shell_runs(__VA_ARGS__))
