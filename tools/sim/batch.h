// SPDX-License-Identifier: BSD-3-Clause
//
// Executes all runs of a scenario file: each variant with each seed, several runs concurrently.
// Called by main.c and tests.
//
// Threads: weir_sim_batch_run starts threads and waits until they have ended. The results do not
// depend on the number of threads.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

struct weir_sim_batch {
	const struct weir_sim_file *file;
	uint64_t first_seed;
	uint32_t seeds; // runs of each variant, > 0
	uint32_t jobs; // number of concurrent runs, > 0; values above 256 mean 256
	bool show_progress; // print the progress to stderr, from one second on
};

struct weir_sim_results {
	uint64_t first_seed;
	uint32_t seeds, count;
	struct weir_sim_result **result; // [count], at index variant * seeds + (seed - first_seed)
};

// Executes all runs, and returns when they have ended; after an error, starts no further runs.
// Returns 0, -ENOMEM, -EAGAIN (no thread could be started).
int weir_sim_batch_run(const struct weir_sim_batch *batch, struct weir_sim_results **ret);
void weir_sim_results_free(struct weir_sim_results *results); // NULL is allowed
