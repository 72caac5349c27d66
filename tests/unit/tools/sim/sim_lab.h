// SPDX-License-Identifier: BSD-3-Clause
//
// Helpers of the simulator's tests: parse scenarios in which ' stands for ", run them, and compare
// results.
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

// Returns the number of requests that have any outcome or are still in progress.
uint64_t lab_accounted(const struct weir_sim_result *result);

// Checks that value differs from wanted by at most `part` * wanted.
#define lab_near(value, wanted, part) lab_near_at(value, wanted, part, #value, __FILE__, __LINE__)
void lab_near_at(
	double value, double wanted, double part, const char *what, const char *file, int line);
