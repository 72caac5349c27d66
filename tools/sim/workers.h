// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario with workers. The run simulates the workers of one balancer, which own
// buckets of flows and get their packets from the software distributor. The steal planner
// (policy/steal_plan.h) or the planner of weir-control (bucket_moves.h) moves buckets from busy
// workers to other workers. Called by simulation.c.
//
// The results have the same form as the results of other scenarios: each worker is shown as a
// backend with one core, and each packet as a request. A packet fails if a ring or the buffer of
// held packets is full.
//
// Threads: a run belongs to one thread; several runs may execute concurrently.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// Runs a scenario with workers; parameters and return values are as for weir_sim_run. The
// guarantees N1 to N3 hold, but N2 only to within about one packet per worker, because the
// simulation counts fractions of packets. *progress rises only at the end.
int weir_sim_workers_run(const struct weir_sim_scenario *scenario, uint64_t seed,
	atomic_ullong *progress, struct weir_sim_result **ret);
