// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario with workers: buckets of flows on the workers of one balancer, as the
// software distributor gives them their packets, and the plan of steals (policy/steal_plan.h) that
// moves buckets from busy workers to others. Called by simulation.c.
//
// The results are those of any scenario: a worker is a "backend" of one core, a packet a "request"
// that completes or, when a ring or a hold is full, fails.
//
// Threads: a run belongs to one thread; several may run side by side.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// As weir_sim_run. Guarantees N1 to N3 hold, N2 to a packet of each worker and a few: parts of
// packets are counted on the way.
int weir_sim_workers_run(const struct weir_sim_scenario *scenario, uint64_t seed,
	atomic_ullong *progress, struct weir_sim_result **ret);
