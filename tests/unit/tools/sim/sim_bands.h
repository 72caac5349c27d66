// SPDX-License-Identifier: BSD-3-Clause
//
// Compares results of complete scenarios with bands, for the acceptance tests.
//
// Threads: one.
#pragma once

#include <stddef.h>

#include "summary.h"

struct lab_band {
	const char *variant; // or "variant/window"; without a window, the first window is meant
	enum weir_sim_metric metric;
	double least, most; // band for each seed
};

// Run a scenario of the directory with seeds 1 and 2, and print its table. Every variant must have
// a band, which detects added variants.
void lab_check(
	const char *directory, const char *scenario, const struct lab_band *bands, size_t count);
