// SPDX-License-Identifier: BSD-3-Clause
//
// Stealing: which tasks of busy workers are to move to idle ones. A task may be anything that one
// worker has and another could have: a bucket of flows of a worker thread, a connection that waits
// at a backend.
//
// Source: work stealing of dask.distributed. Tasks lie in bins by the ratio of what they compute to
// what their move costs: bin 0 costs nothing, bins 1 to 14 have ratios from 32 down to 1/256,
// beyond that a task stays. Cheap bins are tried first, from the most burdened victims on, and a
// task moves if the thief will have finished it before the victim would have begun it, about. What
// was asked for counts as moved until it is answered, and is not asked for again.
//
// Two brakes are poolifier's: no more than a share of the workers steal at once, and a worker whose
// request is refused waits before it is a thief again, twice as long each time.
//
// The plan moves nothing itself: weir_steal_plan_balance() tells what to ask for, the caller asks
// the victim, and weir_steal_plan_answer() tells what follows. Only what a victim has given up
// moves.
//
// Units: durations in seconds, or in any other unit if params has it everywhere.
// Threads: one; no clock (time is an argument). Memory: all of it is allocated at the start.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_STEAL_LEVELS 15u
#define WEIR_STEAL_NO_WORKER UINT32_MAX
#define WEIR_STEAL_NO_LEVEL UINT8_MAX

struct weir_steal_params {
	double latency; // of any move, however little there is to carry
	double victim_floor; // a worker with no more work than this is no victim
	double pending_floor; // nor saturated with no more than this waiting for a thread
	double pending_ratio; // times the mean per thread: waiting work of a saturated worker
	double idle_ratio; // times the mean per thread: less work than this is idle
	bool all_in_mean; // also workers that do not run
	double steal_share; // of the workers may steal at once (rounded up), 0 to 1
	double backoff; // after a first refusal, doubled with each more in a row; 0 = none
	double backoff_max;
	double rest; // a task that has moved stays at least so long; 0 = none
	double answer_limit; // a request without an answer is given up after this
};

// The constants of dask.distributed, in seconds, without poolifier's brakes.
struct weir_steal_params weir_steal_params_dask(void);

struct weir_steal_plan;

// What is known of a task when it begins to wait at a worker.
struct weir_steal_task {
	double duration; // what it computes, above 0
	double transfer; // what carrying its data costs, without latency; below 0: it has none
	const uint64_t
		*allowed; // bit per worker it may move to; NULL = all. Borrowed until removed
	bool loose; // if no allowed worker is idle, any idle one will do
	bool fixed; // never moves
};

struct weir_steal_request {
	uint32_t task, victim, thief;
	uint32_t id; // for the answer; not 0
	uint8_t level;
	double victim_occupancy, thief_occupancy; // before this request, with what was asked for
};

// What a victim says of a task that was asked for.
#define WEIR_STEAL_ANSWERS(X) \
	X(GIVEN_UP, "given up") /* it has not begun, and never will there */ \
	X(RUNNING, "running") /* it has begun, or may have */ \
	X(UNKNOWN, "unknown") /* the victim does not have it */

enum weir_steal_answer {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_ANSWERS(X)
#undef X
};

// What follows from an answer.
#define WEIR_STEAL_OUTCOMES(X) \
	X(MOVED, "moved") /* it is the thief's now */ \
	X(STAYED, "stayed") /* it is the victim's, not asked for again before an update */ \
	X(HOMELESS, "homeless") /* nobody has it: the caller finds a place, then puts it again */ \
	X(STALE, "stale") /* the answer to another request: nothing changed */ \
	X(LATE, "late") /* the request was given up before: nothing changed */

enum weir_steal_outcome {
#define X(name, text) WEIR_STEAL_##name,
	WEIR_STEAL_OUTCOMES(X)
#undef X
};

// params: copied. workers: 1 or more, numbered from 0, each with one thread and not running. tasks:
// most tasks at a time, numbered by the caller from 0. Returns 0 or -ENOMEM.
int weir_steal_plan_create(const struct weir_steal_params *params, uint32_t workers, uint32_t tasks,
	struct weir_steal_plan **ret);
void weir_steal_plan_free(struct weir_steal_plan *plan); // NULL is fine

// threads: 1 or more. A worker that does not run is neither thief nor victim; it keeps its tasks.
// stored: what it holds already, breaks ties between thieves (less is better).
void weir_steal_plan_worker(struct weir_steal_plan *plan, uint32_t worker, uint32_t threads,
	bool running, double stored);

// A task waits at a worker. It must not be put already. O(1).
void weir_steal_plan_put(struct weir_steal_plan *plan, uint32_t task, uint32_t worker,
	const struct weir_steal_task *what);
// What is known of a task that is put has changed: if it was refused, it may be asked for again. A
// request for it goes on as it was made. O(1).
void weir_steal_plan_update(
	struct weir_steal_plan *plan, uint32_t task, const struct weir_steal_task *what);
// A task has begun: it stays where it is, but counts until it is removed. O(1).
void weir_steal_plan_begin(struct weir_steal_plan *plan, uint32_t task);
// A task has ended or gone, or its worker has; a request for it is void. Nothing if it is not put.
// O(1).
void weir_steal_plan_remove(struct weir_steal_plan *plan, uint32_t task);

// What it costs a worker to get at a task's data, without latency (0 where it lies already). NULL:
// transfer of the task at any worker but its own.
typedef double (*weir_steal_transfer)(void *context, uint32_t task, uint32_t worker);
void weir_steal_plan_set_transfer(
	struct weir_steal_plan *plan, weir_steal_transfer transfer, void *context);

// Decide what to ask for, up to max requests. now: monotonic. Returns how many. Without a transfer
// function each try costs O(log thieves), and as much for each thief that a restricted task may not
// have and that would begin before the one it gets; else O(thieves).
uint32_t weir_steal_plan_balance(struct weir_steal_plan *plan, double now,
	struct weir_steal_request *requests, uint32_t max);

// A victim has answered. thief_alive: whether the thief can take the task. Any numbers may be
// passed.
enum weir_steal_outcome weir_steal_plan_answer(struct weir_steal_plan *plan, uint32_t task,
	uint32_t id, enum weir_steal_answer answer, bool thief_alive, double now);

// The next request that has had no answer for too long, and is given up with this call: the task
// stays. Returns its task, or UINT32_MAX. Repeat until then.
uint32_t weir_steal_plan_expire(struct weir_steal_plan *plan, double now);

// --- to look at ---

// The bin of a task, WEIR_STEAL_NO_LEVEL if it is never worth a move. latency: as in the params.
uint8_t weir_steal_level(double duration, double transfer, double latency);
bool weir_steal_plan_is_idle(const struct weir_steal_plan *plan, uint32_t worker);
bool weir_steal_plan_is_saturated(const struct weir_steal_plan *plan, uint32_t worker);
uint32_t weir_steal_plan_owner(const struct weir_steal_plan *plan, uint32_t task); // NO_WORKER
uint32_t weir_steal_plan_in_flight(const struct weir_steal_plan *plan); // requests
double weir_steal_plan_occupancy(const struct weir_steal_plan *plan, uint32_t worker);
// What requests will change about it when they are all confirmed.
double weir_steal_plan_correction(const struct weir_steal_plan *plan, uint32_t worker);
