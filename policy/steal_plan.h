// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing: plans which tasks of busy workers should move to idle workers. A task is work that can
// move between workers: a bucket of flows of a worker thread, or a connection that waits on a
// backend.
//
// Source: work stealing of dask.distributed. Tasks are sorted into bins by the ratio of their
// compute time to the cost of moving them. Tasks in bin 0 move at no cost; bins 1 to 14 contain
// tasks with ratios from 32 (or more) down to 1/256. Tasks with lower ratios are not moved. The
// lowest bins, which have the cheapest moves, are tried first. Within a bin, the victims with the
// highest load are tried first, if fewer than 20 workers are saturated. A task is requested if the
// thief is expected to finish it sooner than the victim finishes its work, by at least half of the
// task. Until the victim answers, the task counts as moved, and is not requested again.
//
// Two limits come from poolifier. Only a limited share of the workers can steal at the same time.
// A worker whose request is refused, or times out, waits before it becomes a thief again; this
// waiting time doubles with each further refusal, up to a maximum.
//
// The plan itself does not move tasks. weir_steal_plan_balance() returns requests, which the caller
// sends to the victims. weir_steal_plan_answer() returns the outcome for the task after the answer
// of a victim. A task is moved only after its victim has released it.
//
// Units: all durations, including the durations in params, must be in the same unit, for example
// seconds.
// Threads: one; no clock (time is an argument). All memory is allocated at the start.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_LEVELS 15u
#define WEIR_STEAL_NO_WORKER UINT32_MAX
#define WEIR_STEAL_NO_LEVEL UINT8_MAX

struct weir_steal_params {
	double latency; // fixed cost of a move, in addition to the transfer of the task's data
	// A worker with at most this much work is not a victim, unless it is saturated.
	double victim_floor;
	double pending_floor; // a saturated worker has more waiting work per thread than this
	// A saturated worker has more waiting work per thread than this ratio times the mean work
	// per thread.
	double pending_ratio;
	// A worker is idle if its work per thread is below this ratio times the mean, or if it has
	// fewer tasks than threads
	double idle_ratio;
	bool all_in_mean; // the mean work per thread includes workers that do not run
	// true = a move delays the task but costs the thief no work: the cost of the move is not
	// added to the thief's work
	bool parallel;
	// Maximum share of the workers that steal at the same time (rounded up), 0 to 1
	double steal_share;
	// Time for which a thief waits after a refusal or a timeout. The time doubles with each
	// further refusal or timeout until a task is moved, up to backoff_max. 0 = no wait.
	double backoff;
	double backoff_max;
	double rest; // minimum time between two moves of a task; 0 = no minimum
	double answer_limit; // timeout of a request
};

// Returns the constants of dask.distributed, in seconds, without poolifier's limits.
struct weir_steal_params weir_steal_params_dask(void);

struct weir_steal_plan;

// Properties of a task that waits on a worker.
struct weir_steal_task {
	double duration; // compute time, above 0
	// Cost of moving the task, without latency; below 0 = no cost, and no latency
	double transfer;
	// One bit for each worker: 1 = the worker is allowed to get the task. NULL = all workers
	// are allowed. Borrowed until the task is removed.
	const uint64_t *allowed;
	bool loose; // if no allowed worker is idle, any idle worker can get the task
	bool fixed; // the task is never moved
};

struct weir_steal_request {
	uint32_t task, victim, thief;
	uint32_t id; // returned in the answer; not 0
	uint8_t level;
	// Work of victim and thief before this request. Tasks that were requested earlier count as
	// moved.
	double victim_occupancy, thief_occupancy;
};

// The victim's answer about a requested task.
#define WEIR_STEAL_ANSWERS(X) \
	X(GIVEN_UP, "released") /*the task has not begun, and will not begin on the victim*/ \
	X(RUNNING, "running") /*the task has begun, or may have begun*/ \
	X(UNKNOWN, "unknown") /*the victim does not have the task*/

enum weir_steal_answer {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_ANSWERS(X)
#undef X
};

// The outcomes of a steal request.
#define WEIR_STEAL_OUTCOMES(X) \
	X(MOVED, "moved") /*the task belongs to the thief now*/ \
	X(STAYED, \
		"stayed") /*the victim keeps the task; it is not requested again until an update*/ \
	X(HOMELESS, "homeless") /*no worker has the task: the caller puts the task on a worker*/ \
	X(STALE, "stale") /*the answer to an earlier request: no change*/ \
	X(LATE, "late") /*no request is pending, for example after a timeout: no change*/

enum weir_steal_outcome {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_OUTCOMES(X)
#undef X
};

// Creates a plan. params: copied. workers: number of workers, 1 or more; their indexes begin with
// 0. At first, each worker has one thread and does not run. tasks: maximum number of tasks at a
// time; the caller gives them indexes from 0 to tasks - 1. Returns 0 or -ENOMEM.
int weir_steal_plan_create(const struct weir_steal_params *params, uint32_t workers, uint32_t tasks,
	struct weir_steal_plan **ret);
void weir_steal_plan_free(struct weir_steal_plan *plan); // NULL is allowed

// Sets the properties of a worker. threads: 1 or more. A worker that does not run keeps its tasks,
// and is never a thief or a victim. stored: amount of data that the worker holds; if two thieves
// would begin at the same time, the thief with less data is chosen.
void weir_steal_plan_worker(struct weir_steal_plan *plan, uint32_t worker, uint32_t threads,
	bool running, double stored);

// Adds a task that waits on a worker. A task must not be added twice. O(1).
void weir_steal_plan_put(struct weir_steal_plan *plan, uint32_t task, uint32_t worker,
	const struct weir_steal_task *what);
// Update the properties of a task. After that, a refused task can be requested again. A pending
// request for the task is not affected. O(1).
void weir_steal_plan_update(
	struct weir_steal_plan *plan, uint32_t task, const struct weir_steal_task *what);
// Records that a task has begun. The task can no longer be moved, but counts as work until it is
// removed. O(1).
void weir_steal_plan_begin(struct weir_steal_plan *plan, uint32_t task);
// Removes a task that has finished or whose worker no longer exists. A pending request for the
// task becomes void. Does nothing if the task was not added. O(1).
void weir_steal_plan_remove(struct weir_steal_plan *plan, uint32_t task);

// Returns the cost for a worker to fetch the data of a task, without latency; 0 if the worker
// already has the data. Without this function (NULL), the cost is the task's `transfer`, or 0
// for the worker on which the task waits.
typedef double (*weir_steal_transfer)(void *context, uint32_t task, uint32_t worker);
void weir_steal_plan_set_transfer(
	struct weir_steal_plan *plan, weir_steal_transfer transfer, void *context);

// Computes up to max requests. now: monotonic. Returns the number of requests. Cost for each
// task that is tried: O(thieves) with a transfer function, otherwise O(log thieves). A
// restricted task without a transfer function costs another O(log thieves) for each disallowed
// thief that would begin sooner than the chosen thief.
uint32_t weir_steal_plan_balance(struct weir_steal_plan *plan, double now,
	struct weir_steal_request *requests, uint32_t max);

// Processes a victim's answer. thief_alive: whether the thief can still accept the task. Returns
// WEIR_STEAL_LATE if the task is invalid or has no pending request, and WEIR_STEAL_STALE if its
// pending request has another id.
enum weir_steal_outcome weir_steal_plan_answer(struct weir_steal_plan *plan, uint32_t task,
	uint32_t id, enum weir_steal_answer answer, bool thief_alive, double now);

// Cancels the oldest request if it has timed out. The task of the request stays with the victim.
// Returns the task, or UINT32_MAX if no request has timed out. Call repeatedly until it returns
// UINT32_MAX.
uint32_t weir_steal_plan_expire(struct weir_steal_plan *plan, double now);

// --- introspection ---

// Returns the bin of a task, or WEIR_STEAL_NO_LEVEL if the cost of moving the task is too high.
// latency: as in the params.
uint8_t weir_steal_level(double duration, double transfer, double latency);
bool weir_steal_plan_is_idle(const struct weir_steal_plan *plan, uint32_t worker);
bool weir_steal_plan_is_saturated(const struct weir_steal_plan *plan, uint32_t worker);
uint32_t weir_steal_plan_owner(const struct weir_steal_plan *plan, uint32_t task); // or NO_WORKER
uint32_t weir_steal_plan_in_flight(const struct weir_steal_plan *plan); // number of requests
double weir_steal_plan_occupancy(const struct weir_steal_plan *plan, uint32_t worker);
// Returns how much a worker's load will change if all pending requests are confirmed.
double weir_steal_plan_correction(const struct weir_steal_plan *plan, uint32_t worker);
