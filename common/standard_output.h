// SPDX-License-Identifier: BSD-3-Clause
//
// Standard output of commands: a full disk, a closed pipe or a closed descriptor must not look like
// success.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stdio.h>

// Opens /dev/null, only for reading, for descriptors 0 to 2 that are closed. Writing to them then
// fails. Otherwise the next file or socket would get one of these numbers, and the program's output
// would be written to it. Call this function first in main().
void weir_standard_output_claim(void);

// Flush out. Returns whether everything printed to it was written; if not, a line was printed to
// err.
bool weir_standard_output_finish(const char *program, FILE *out, FILE *err);
