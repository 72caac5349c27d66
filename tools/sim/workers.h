// SPDX-License-Identifier: BSD-3-Clause
//
// One run of a scenario with workers. It simulates the workers of one balancer, which own buckets
// of flows and get their packets from the software distributor. The planner of steals
// (policy/steal_plan.h) moves buckets from busy workers to other workers. Called by simulation.c.
//
// The results have the form of other scenarios: a worker counts as a backend of one core, and a
// packet as a request. A packet fails if a ring or the buffer of held packets is full.
//
// Threads: a run belongs to one thread; several may run side by side.
#pragma once

#include <stdatomic.h>
#include <stdint.h>

#include "result.h"
#include "scenario.h"

// Like weir_sim_run, for a scenario with workers. Guarantees N1 to N3 hold; N2 has an error of
// about one packet per worker, because fractions of packets are counted.
int weir_sim_workers_run(const struct weir_sim_scenario *scenario, uint64_t seed,
	atomic_ullong *progress, struct weir_sim_result **ret);
