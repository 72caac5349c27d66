// SPDX-License-Identifier: BSD-3-Clause
//
// Helpers of the simulator's tests: scenarios from text with ' for ", runs, comparisons.
//
// Threads: one.
#pragma once

#include "result.h"
#include "scenario.h"
#include "test.h"

// Parse a scenario with quotes written as '. Fails the test if it is invalid.
struct weir_sim_file *lab_parse(const char *text);

// Run one variant of the scenario.
struct weir_sim_result *lab_run(const struct weir_sim_file *file, uint32_t variant, uint64_t seed);

// Parse, run the first variant with seed 1, free the file.
struct weir_sim_result *lab_try(const char *text);

// The number of requests that have ended in any way, or are in progress.
uint64_t lab_accounted(const struct weir_sim_result *result);

// value is within `part` of wanted.
#define lab_near(value, wanted, part) lab_near_at(value, wanted, part, #value, __FILE__, __LINE__)
void lab_near_at(
	double value, double wanted, double part, const char *what, const char *file, int line);
