// SPDX-License-Identifier: BSD-3-Clause
//
// Duration of the tasks of one kind, estimated for the steal planner (steal_plan.h).
//
// Source: TaskPrefix of dask.distributed. The first sample becomes the average. Each later sample
// changes the average to the mean of the average and the sample. A task that runs for more than
// twice the average invalidates it; the next sample then becomes the average. The estimate is the
// average or, if there is none, twice the longest time for which a task was seen running.
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
