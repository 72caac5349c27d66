// SPDX-License-Identifier: BSD-3-Clause
//
// Results as CSV files: summary.csv, backends.csv, series.csv. Called by main.c.
//
// Threads: any.
#pragma once

#include <stddef.h>

#include "batch.h"

// Write the results of all runs of a scenario file to CSV files in an existing directory. Returns
// 0, or negative errno with the path of the CSV file in why.
int weir_sim_csv_write(const char *directory, const struct weir_sim_file *file,
	const struct weir_sim_results *results, char *why, size_t why_bytes);
