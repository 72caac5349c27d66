// SPDX-License-Identifier: BSD-3-Clause
//
// Duration of tasks of one kind, as the planner of steals estimates it (steal_plan.h).
//
// Source: TaskPrefix of dask.distributed: the first sample, then half of it and half of the next
// one. A task that has been running for more than twice the average disproves it.
//
// Threads: pure functions over what the caller owns.
#pragma once

struct weir_steal_duration {
	double average; // below 0 = unknown
	double longest; // that a task was seen running
};

void weir_steal_duration_init(struct weir_steal_duration *duration);
// A task has taken so long, 0 or more.
void weir_steal_duration_ended(struct weir_steal_duration *duration, double took);
// A task has been running for so long.
void weir_steal_duration_seen(struct weir_steal_duration *duration, double running);
// unknown: what to say when nothing is known.
double weir_steal_duration_estimate(const struct weir_steal_duration *duration, double unknown);
