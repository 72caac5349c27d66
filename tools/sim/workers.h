// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario with workers: buckets of flows on the workers of one balancer, whose
// packets come from the software distributor, and the planner of steals (policy/steal_plan.h),
// which moves buckets from busy workers to others. Called by simulation.c.
//
// The results are those of any scenario: a worker is a "backend" of one core, a packet a "request"
// that completes or, if a ring or the buffer of held packets is full, fails.
//
// Threads: a run belongs to one thread; several may run side by side.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// As weir_sim_run. Guarantees N1 to N3 hold, N2 with an error of about one packet per worker,
// because fractions of packets are counted.
int weir_sim_workers_run(const struct weir_sim_scenario *scenario, uint64_t seed,
	atomic_ullong *progress, struct weir_sim_result **ret);
