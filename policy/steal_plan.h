// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing: which tasks of busy workers should move to idle ones. A task is anything that one
// worker has and another could have: a bucket of flows of a worker thread, or a connection that
// waits on a backend.
//
// Source: work stealing of dask.distributed. Tasks are in bins by the ratio of their compute time
// to the cost of moving them: bin 0 costs nothing, bins 1 to 14 have ratios from 32 down to 1/256,
// beyond that a task stays. Cheap bins are tried first, from the most loaded victims on, and a task
// moves if the thief is expected to finish it before the victim would begin it. A requested task
// counts as moved until the answer, and is not requested again.
//
// Two limits come from poolifier: at most a share of the workers steal at once, and a worker whose
// request is refused waits before it becomes a thief again, twice as long each time.
//
// The plan itself moves nothing: weir_steal_plan_balance() returns the requests, the caller sends
// them to the victims, and weir_steal_plan_answer() returns the consequence of an answer. Only
// tasks released by their victim move.
//
// Units: durations in seconds, or in another unit if params uses it everywhere. Threads: one; no
// clock (time is an argument). All memory is allocated at the start.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_LEVELS 15u
#define WEIR_STEAL_NO_WORKER UINT32_MAX
#define WEIR_STEAL_NO_LEVEL UINT8_MAX

struct weir_steal_params {
	double latency; // fixed cost of a move, in addition to the data
	double victim_floor; // a worker with at most this much work is not a victim
	double pending_floor; // nor saturated with at most this much waiting per thread
	double pending_ratio; // times the mean per thread: waiting work of a saturated worker
	double idle_ratio; // times the mean per thread: less work than this is idle
	bool all_in_mean; // including workers that do not run
	bool parallel; // moves only take time: their costs do not add up in a thief's work
	double steal_share; // share of the workers that may steal at once (rounded up), 0 to 1
	double backoff; // after a first refusal, doubled with each consecutive one; 0 = none
	double backoff_max;
	double rest; // minimum time that a moved task stays; 0 = none
	double answer_limit; // timeout of a request
};

// The constants of dask.distributed, in seconds, without poolifier's limits.
struct weir_steal_params weir_steal_params_dask(void);

struct weir_steal_plan;

// Properties of a task when it starts to wait on a worker.
struct weir_steal_task {
	double duration; // compute time, above 0
	double transfer; // cost of moving it, without latency; below 0: it has none
	const uint64_t
		*allowed; // one bit per worker that may have it; NULL = all. Borrowed until removed
	bool loose; // if no allowed worker is idle, any idle one may have it
	bool fixed; // never moves
};

struct weir_steal_request {
	uint32_t task, victim, thief;
	uint32_t id; // returned in the answer; not 0
	uint8_t level;
	double victim_occupancy, thief_occupancy; // before this request, including requested tasks
};

// The victim's answer about a requested task.
#define WEIR_STEAL_ANSWERS(X) \
	X(GIVEN_UP, "released") /*it has not begun, and never will on the victim*/ \
	X(RUNNING, "running") /*it has begun, or may have*/ \
	X(UNKNOWN, "unknown") /*the victim does not have it*/

enum weir_steal_answer {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_ANSWERS(X)
#undef X
};

// The consequence of an answer.
#define WEIR_STEAL_OUTCOMES(X) \
	X(MOVED, "moved") /*the task belongs to the thief now*/ \
	X(STAYED, \
		"stayed") /*the task stays with the victim, not requested again before an update*/ \
	X(HOMELESS, "homeless") /*no worker has it: the caller finds a place, then puts it again*/ \
	X(STALE, "stale") /*the answer to another request: nothing changed*/ \
	X(LATE, "late") /*the request has timed out before: nothing changed*/

enum weir_steal_outcome {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_OUTCOMES(X)
#undef X
};

// params: copied. workers: 1 or more, numbered from 0, each with one thread and not running. tasks:
// maximum number of concurrent tasks, numbered by the caller from 0. Returns 0 or -ENOMEM.
int weir_steal_plan_create(const struct weir_steal_params *params, uint32_t workers, uint32_t tasks,
	struct weir_steal_plan **ret);
void weir_steal_plan_free(struct weir_steal_plan *plan); // NULL is allowed

// threads: 1 or more. A worker that does not run is neither thief nor victim; it keeps its tasks.
// stored: amount of data it holds, breaks ties between thieves (less is better).
void weir_steal_plan_worker(struct weir_steal_plan *plan, uint32_t worker, uint32_t threads,
	bool running, double stored);

// A task waits on a worker. It must not be put already. O(1).
void weir_steal_plan_put(struct weir_steal_plan *plan, uint32_t task, uint32_t worker,
	const struct weir_steal_task *what);
// The properties of a task have changed: if it was refused, it may be requested again. A pending
// request for it is unaffected. O(1).
void weir_steal_plan_update(
	struct weir_steal_plan *plan, uint32_t task, const struct weir_steal_task *what);
// A task has begun: it cannot move, but counts until it is removed. O(1).
void weir_steal_plan_begin(struct weir_steal_plan *plan, uint32_t task);
// A task has ended or is gone, or its worker is; a pending request for it becomes void. Does
// nothing if it is not put. O(1).
void weir_steal_plan_remove(struct weir_steal_plan *plan, uint32_t task);

// The cost for a worker to fetch a task's data, without latency (0 if it has the data). NULL:
// transfer of the task for every worker but its own.
typedef double (*weir_steal_transfer)(void *context, uint32_t task, uint32_t worker);
void weir_steal_plan_set_transfer(
	struct weir_steal_plan *plan, weir_steal_transfer transfer, void *context);

// Compute up to max requests. now: monotonic. Returns their number. Without a transfer function
// each try costs O(log thieves), and as much for each thief that a restricted task may not have and
// that would begin before the chosen one; otherwise O(thieves).
uint32_t weir_steal_plan_balance(struct weir_steal_plan *plan, double now,
	struct weir_steal_request *requests, uint32_t max);

// Process a victim's answer. thief_alive: whether the thief can take the task. All numbers are
// validated.
enum weir_steal_outcome weir_steal_plan_answer(struct weir_steal_plan *plan, uint32_t task,
	uint32_t id, enum weir_steal_answer answer, bool thief_alive, double now);

// Cancel the next request that has timed out: its task stays with the victim. Returns the task, or
// UINT32_MAX if there is none. Repeat until then.
uint32_t weir_steal_plan_expire(struct weir_steal_plan *plan, double now);

// --- introspection ---

// The bin of a task, WEIR_STEAL_NO_LEVEL if moving it is never worthwhile. latency: as in the
// params.
uint8_t weir_steal_level(double duration, double transfer, double latency);
bool weir_steal_plan_is_idle(const struct weir_steal_plan *plan, uint32_t worker);
bool weir_steal_plan_is_saturated(const struct weir_steal_plan *plan, uint32_t worker);
uint32_t weir_steal_plan_owner(const struct weir_steal_plan *plan, uint32_t task); // NO_WORKER
uint32_t weir_steal_plan_in_flight(const struct weir_steal_plan *plan); // requests
double weir_steal_plan_occupancy(const struct weir_steal_plan *plan, uint32_t worker);
// The change of a worker's load when all pending requests are confirmed.
double weir_steal_plan_correction(const struct weir_steal_plan *plan, uint32_t worker);
