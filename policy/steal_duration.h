// SPDX-License-Identifier: BSD-3-Clause
//
// Duration of the tasks of one kind, estimated for the steal planner (steal_plan.h).
//
// Source: TaskPrefix of dask.distributed. The first sample becomes the estimate. After each later
// sample, the estimate is the mean of the previous estimate and the sample. A task that runs for
// more than twice the average invalidates the average: until the next sample, the estimate is then
// twice the longest time for which a task was seen running.
//
// Threads: any; the caller owns all data.
#pragma once

struct weir_steal_duration {
	double average; // average duration; below 0 = unknown
	double longest; // longest time for which an unfinished task was seen running
};

void weir_steal_duration_init(struct weir_steal_duration *duration);
// Records the duration of a finished task. took: 0 or more.
void weir_steal_duration_ended(struct weir_steal_duration *duration, double took);
// Records for how long an unfinished task has been running.
void weir_steal_duration_seen(struct weir_steal_duration *duration, double running);
// Returns the estimate, or `unknown` if no task has finished or was seen running.
double weir_steal_duration_estimate(const struct weir_steal_duration *duration, double unknown);
