// SPDX-License-Identifier: BSD-3-Clause
//
// Standard output of commands. A command must fail if its output cannot be written, for example
// because the disk is full, or because the pipe or the descriptor is closed.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// Opens /dev/null read-only as each descriptor from 0 to 2 that is closed. Writing to such a
// descriptor then fails. Without this call, the next file or socket that the program opens would
// get one of these numbers, and would receive the program's output. Call this function first in
// main().
void weir_standard_output_claim(void);

// Flush out. Returns true if all output was written. Otherwise prints a line to err.
bool weir_standard_output_finish(const char *program, FILE *out, FILE *err);
