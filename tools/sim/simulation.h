// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario: clients that choose by the same policies as the dataplane, backends that
// serve, and a control process that learns of changes with a delay. Called by batch.c and tests.
//
// N1 Deterministic: the same scenario and seed give the same result, with any compiler.
// N2 Every request that arrives ends exactly once, or is unfinished when the run ends.
// N3 The workload (arrivals, costs, antagonists) follows from the seed alone, not from the policy.
//
// Threads: a run belongs to one thread; several may run side by side.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// Run it. progress: thousandths done are added, 1000 in all; may be read by other threads; NULL =
// not wanted.
// Returns 0, -ENOMEM.
int weir_sim_run(const struct weir_sim_scenario *scenario, uint64_t seed, atomic_ullong *progress,
	struct weir_sim_result **ret);
