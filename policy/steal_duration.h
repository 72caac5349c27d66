// SPDX-License-Identifier: BSD-3-Clause
//
// Duration of tasks of a kind, as estimated by the planner of steals (steal_plan.h).
//
// Source: TaskPrefix of dask.distributed: the first sample, then half of the estimate plus half of
// the next sample. A task that runs for more than twice the average invalidates it.
//
// Threads: pure functions over the caller's data.
#pragma once

struct weir_steal_duration {
	double average; // below 0 = unknown
	double longest; // longest observed time of a running task
};

void weir_steal_duration_init(struct weir_steal_duration *duration);
// A task has taken this long, 0 or more.
void weir_steal_duration_ended(struct weir_steal_duration *duration, double took);
// A task has been running for this long.
void weir_steal_duration_seen(struct weir_steal_duration *duration, double running);
// unknown: the result without any sample.
double weir_steal_duration_estimate(const struct weir_steal_duration *duration, double unknown);
