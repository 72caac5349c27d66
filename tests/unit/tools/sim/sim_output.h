// SPDX-License-Identifier: BSD-3-Clause
//
// Fixed results for the tests of output code, so that each number in the output is known.
//
// Threads: one.
#pragma once

#include "batch.h"

struct lab_output {
	struct weir_sim_file *file; // a file with variants "a" and "b", and window "measured"
	struct weir_sim_results *results; // results of seeds 4 and 5
	char directory[64]; // an empty directory
};

void lab_output_make(struct lab_output *output);
void lab_output_free(struct lab_output *output); // also removes the directory

// Returns the text of a file in the directory, or NULL if the file does not exist. The caller frees
// the text.
char *lab_output_read(const struct lab_output *output, const char *name);
