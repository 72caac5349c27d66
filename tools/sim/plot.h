// SPDX-License-Identifier: BSD-3-Clause
//
// Plots: for each plot of a scenario, writes a gnuplot script that contains the data, and runs
// gnuplot to draw the image. Called by main.c.
//
// Threads: any. Starts gnuplot and waits for it.
#pragma once

#include <stddef.h>

#include "batch.h"

// Write DIRECTORY/<scenario>-<plot>.gp and draw DIRECTORY/<scenario>-<plot>.<format>.
//
// format  "svg" or "png"
// Returns 0, -ENOENT (no gnuplot; the scripts were written), or negative errno with one line in
// why: the first failure; the other plots are still drawn.
int weir_sim_plots_draw(const char *directory, const char *format, const struct weir_sim_file *file,
	const struct weir_sim_results *results, char *why, size_t why_bytes);
