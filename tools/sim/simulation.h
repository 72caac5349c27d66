// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario: clients that use the same policies as the dataplane, backends that process
// requests, and a control process that detects changes with a delay. Called by batch.c and tests.
//
//   N1 Deterministic: a scenario and a seed always give the same result, with any compiler.
//   N2 Every request that arrives has exactly one outcome, or is unfinished when the run ends.
//   N3 The workload (arrivals, costs, antagonists) depends on the seed and on the keys of the
//      scenario that describe the workload, not on the policy.
//
// Threads: a run belongs to one thread; several runs may execute concurrently.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// Run a scenario with this seed. progress: rises by 1000 in total, by 1 for each thousandth of the
// simulated time (with workers, by 1000 at the end of the run). Other threads can read it. NULL =
// not needed. After an error, the total can be lower. Returns 0, -ENOMEM.
int weir_sim_run(const struct weir_sim_scenario *scenario, uint64_t seed, atomic_ullong *progress,
	struct weir_sim_result **ret);
