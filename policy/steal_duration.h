// SPDX-License-Identifier: BSD-3-Clause
//
// Duration of the tasks of one kind, estimated for the steal planner (steal_plan.h).
//
// Source: TaskPrefix of dask.distributed. The estimate is the first sample; each later sample
// changes it to half of the estimate plus half of the sample. A task that runs for more than twice
// the average invalidates the average.
//
// Threads: pure functions over the caller's data.
#pragma once

struct weir_steal_duration {
	double average; // average duration; below 0 = unknown
	double longest; // longest observed time of a running task
};

void weir_steal_duration_init(struct weir_steal_duration *duration);
// Record the duration of a task that has ended. took: 0 or more.
void weir_steal_duration_ended(struct weir_steal_duration *duration, double took);
// Record the time for which a task has been running that has not ended.
void weir_steal_duration_seen(struct weir_steal_duration *duration, double running);
// Returns the estimate, or `unknown` if there is no sample.
double weir_steal_duration_estimate(const struct weir_steal_duration *duration, double unknown);
