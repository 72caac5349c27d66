// SPDX-License-Identifier: BSD-3-Clause
//
// For the acceptance tests: compares the results of complete scenarios with bands (permitted
// ranges).
//
// Threads: one.
#pragma once

#include <stddef.h>

#include "summary.h"

struct lab_band {
	const char *variant; // "variant" for its first window, or "variant/window"
	enum weir_sim_metric metric;
	double least, most; // permitted range of the result with each seed
};

// Runs a scenario of the directory with seeds 1 and 2, prints its table, and checks the bands.
// Every variant must have a band, so that a new variant fails the test.
void lab_check(
	const char *directory, const char *scenario, const struct lab_band *bands, size_t count);
