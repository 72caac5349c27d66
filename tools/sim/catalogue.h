// SPDX-License-Identifier: BSD-3-Clause
//
// The directory and the list of the scenarios that are installed with Weir. Called by main.c.
//
// Threads: any.
#pragma once

#include <stddef.h>
#include <stdio.h>

// Returns the directory to search: `wanted` if it is not NULL, otherwise `installed`. If
// `installed` does not exist, but tools/sim/scenarios exists in the current directory, returns
// tools/sim/scenarios.
const char *weir_sim_catalogue_directory(const char *wanted, const char *installed);

// Get the path of the file that an operand of the command line names. An operand that contains "/"
// or ends in .json is a path. Any other operand is the name of a scenario in the directory.
void weir_sim_catalogue_path(
	const char *directory, const char *operand, char *ret_path, size_t bytes);

// Print name and title of each scenario, sorted by file name; errors go to `errors`.
// Returns 0, -EINVAL (a file has errors; the other files are printed), or negative errno.
int weir_sim_catalogue_print(const char *directory, FILE *stream, FILE *errors);
