// SPDX-License-Identifier: BSD-3-Clause
//
// Shared by the two files of the steal planner: steal_plan.c keeps tasks, bins and pending
// requests, and processes answers; steal_balance.c finds idle and saturated workers, and makes
// requests.
#pragma once

#include "steal_plan.h"

#define WEIR_STEAL_NONE UINT32_MAX

struct weir_steal_link {
	uint32_t before, after; // tasks, or WEIR_STEAL_NONE
};

struct weir_steal_list {
	uint32_t first, last; // tasks, or WEIR_STEAL_NONE
};

struct weir_steal_worker {
	double occupancy; // work of the worker: sum of the burdens of its tasks
	double correction; // change of occupancy if all requests in flight are confirmed
	double stored;
	double not_before; // cannot be a thief before this time
	uint32_t threads;
	uint32_t tasks;
	int32_t tasks_correction;
	uint32_t stealing; // requests in flight with this worker as the thief
	uint32_t refusals; // consecutive refusals
	uint32_t place; // index among the thieves, WEIR_STEAL_NONE = not a thief
	bool running, idle, saturated;
	struct weir_steal_list bins[WEIR_STEAL_LEVELS];
};

struct weir_steal_slot {
	struct weir_steal_link bin; // valid while level is set
	struct weir_steal_link flight; // valid while id is not 0
	const uint64_t *allowed;
	double duration, transfer;
	double burden; // load that the task adds to its worker
	double moved_at;
	// Time of the request, and its effect on the work of victim and thief.
	double requested_at, victim_burden, thief_burden;
	uint32_t worker; // WEIR_STEAL_NONE = the task was not added
	uint32_t thief;
	uint32_t id; // id of the request, 0 = none
	uint8_t level; // the task's bin, WEIR_STEAL_NO_LEVEL = none
	bool loose, fixed, begun, refused, moved;
};

struct weir_steal_plan {
	struct weir_steal_params params;
	weir_steal_transfer transfer;
	void *context;
	struct weir_steal_worker *workers;
	uint32_t worker_count;
	struct weir_steal_slot *tasks;
	uint32_t task_count;
	struct weir_steal_list flight; // oldest request first
	uint32_t in_flight;
	uint32_t stealing; // number of thieves with requests in flight
	uint32_t next_id;
	// Heap of the workers that can steal now; on top is the worker that would begin a stolen
	// task first
	uint32_t *thieves, thief_count;
	uint32_t *victims, victim_count;
	double total_occupancy, total_threads; // values at the last call of weir_steal_plan_balance
};

// Returns the cost for a worker to fetch the data of a task.
double weir_steal_cost_at(const struct weir_steal_plan *plan, uint32_t task, uint32_t worker);
// Request a task. Returns the id of the request.
uint32_t weir_steal_begin_request(
	struct weir_steal_plan *plan, uint32_t task, uint32_t thief, double now);
