// SPDX-License-Identifier: BSD-3-Clause
//
// Bucket moves: plans moves of buckets of flows between workers, so that all workers have similar
// loads, and tracks the requested moves. The planner (policy/steal_plan.h) selects the moves. Its
// thresholds are close to the mean load, as in RSS++.
//
// Guarantees (the victim of a move is the worker that loses the bucket, the thief is the worker
// that gets the bucket):
//   B1 buckets move only away from workers with more than WEIR_BUCKET_TRIGGER times the mean load,
//      and only while some worker's load is at least WEIR_BUCKET_SPARE. Therefore no bucket moves
//      on an idle machine.
//   B2 at most WEIR_BUCKET_MOVES moves are requested in a tick, and a moved bucket does not move
//      again for WEIR_BUCKET_REST_S. With 10 ticks per second this module therefore moves at most
//      10 * WEIR_BUCKET_MOVES buckets per second. Moves requested by distributors (moves.h) are
//      additional, and do not wait for WEIR_BUCKET_REST_S.
//   B3 a worker is the victim or the thief of at most one request that was sent and has not
//      ended; further requests for this worker wait.
//   B4 the owners in the dataplane are authoritative, regardless of requests and answers.
//   B5 a bucket does not move to a worker whose load would then be higher than the current load of
//      the bucket's owner. Therefore a bucket that uses most of a worker's time (an elephant) does
//      not move back and forth.
//
// Threads: one. No clock: time is an argument, in seconds (CLOCK_MONOTONIC).
#pragma once

#include "bucket_loads.h"

#define WEIR_BUCKET_TICK_MS 100
// buckets move away from a worker if its load is above the mean load times this ratio
#define WEIR_BUCKET_TRIGGER 1.1
// buckets move only if the highest load of a worker is at least this share of its time
#define WEIR_BUCKET_SPARE 0.05
#define WEIR_BUCKET_MOVES 16u // maximum number of moves requested in a tick
#define WEIR_BUCKET_REST_S 0.3 // minimum time between two moves of a bucket: three ticks
#define WEIR_BUCKET_LIMIT_S 1.0 // time after which a request expires
// A bucket whose load rises above this share of a worker's time becomes an elephant.
#define WEIR_BUCKET_ELEPHANT 0.5
#define WEIR_BUCKET_REPORT_S 600.0 // minimum time between two reports of the same elephant

struct weir_bucket_moves;

struct weir_bucket_request {
	uint32_t bucket, victim, thief;
	uint32_t id; // identifies the answer; not 0
};

// workers: number of workers, 1..WEIR_WORKERS_MAX. look: the counters at the start. Returns 0 or
// -ENOMEM.
int weir_bucket_moves_create(
	uint32_t workers, const struct weir_bucket_look *look, struct weir_bucket_moves **ret);
void weir_bucket_moves_free(struct weir_bucket_moves *moves); // NULL is allowed

// Runs a tick: measures the loads, and plans requests if stealing is true. now: CLOCK_MONOTONIC in
// seconds.
void weir_bucket_moves_tick(struct weir_bucket_moves *moves, const struct weir_bucket_look *look,
	bool stealing, double now);
// Call this function between ticks while requests are pending. Detects the buckets that have
// arrived at their thieves.
void weir_bucket_moves_note(
	struct weir_bucket_moves *moves, const struct weir_bucket_look *look, double now);
// Gets the next request to send; the module then waits for the answer. Returns false if there is no
// request to send.
bool weir_bucket_moves_next(struct weir_bucket_moves *moves, struct weir_bucket_request *ret);
// Handles the answer of a victim. confirmed: false = the bucket stays; true = the bucket will move.
// An answer that matches no pending request is ignored.
void weir_bucket_moves_answer(
	struct weir_bucket_moves *moves, uint32_t bucket, uint32_t id, bool confirmed, double now);

// --- status ---

// Returns the number of requests that have no answer yet, or are confirmed but not completed yet.
uint32_t weir_bucket_moves_pending(const struct weir_bucket_moves *moves);
// Returns the load that a worker will have when its pending requests are completed, as a share of
// its time (1 = all of it).
double weir_bucket_moves_load(const struct weir_bucket_moves *moves, uint32_t worker);

struct weir_bucket_summary { // buckets of one worker
	uint32_t buckets; // number of buckets that the worker owns
	uint32_t elephants; // number of its buckets that are elephants
	uint32_t hottest; // bucket with the highest load; WEIR_BUCKETS = no bucket has a load
	double hottest_load; // load of the hottest bucket, as a share of the worker's time
};
struct weir_bucket_summary weir_bucket_moves_summary(
	const struct weir_bucket_moves *moves, uint32_t worker);

// Gets the next bucket to report: the bucket has become an elephant, and was not returned in its
// current report interval of WEIR_BUCKET_REPORT_S. Returns false if there is no such bucket.
bool weir_bucket_moves_elephant(struct weir_bucket_moves *moves, uint32_t *ret_bucket,
	uint32_t *ret_worker, double *ret_load);
