// SPDX-License-Identifier: BSD-3-Clause
//
// Compares results of complete scenarios with bands, for the acceptance tests.
//
// Threads: one.
#pragma once

#include <stddef.h>

#include "summary.h"

struct lab_band {
	const char *variant; // "variant" for its first window, or "variant/window"
	enum weir_sim_metric metric;
	double least, most; // band for each seed
};

// Runs a scenario of the directory with seeds 1 and 2, prints its table, and checks the bands.
// Every variant must have a band, so that a new variant fails the test.
void lab_check(
	const char *directory, const char *scenario, const struct lab_band *bands, size_t count);
