// SPDX-License-Identifier: BSD-3-Clause
//
// Bucket moves: which buckets of flows are to go from one worker to another, so that all have
// equally much to do; and what has become of those that were asked for. The decision is that of
// policy/steal_plan.h with thresholds near the mean, as RSS++ has them.
//
// Guarantees:
//   B1 only a worker with more than WEIR_BUCKET_TRIGGER times the mean load gives buckets, and only
//      while one has at least WEIR_BUCKET_SPARE of a worker's time to do: an idle machine is left
//      alone.
//   B2 at most WEIR_BUCKET_MOVES buckets are asked for in a tick, and one that has moved rests for
//      WEIR_BUCKET_REST_S: so with 10 ticks a second at most 10 * WEIR_BUCKET_MOVES move by what is
//      decided here. What distributors ask for (moves.h) comes on top, and need not have rested.
//   B3 a victim or a thief has at most one request at a time.
//   B4 the dataplane's owners are the truth, whatever was asked, answered or not answered.
//   B5 a bucket does not move to a worker that would then have more to do than the one it left has
//      now: one that takes most of a worker's time (an elephant) does not go back and forth.
//
// Threads: one. No clock: time is an argument, in seconds (CLOCK_MONOTONIC).
#pragma once

#include "bucket_loads.h"

#define WEIR_BUCKET_TICK_MS 100
#define WEIR_BUCKET_TRIGGER 1.1 // times the mean load
#define WEIR_BUCKET_SPARE 0.05 // of a worker's time
#define WEIR_BUCKET_MOVES 16u // asked for in a tick
#define WEIR_BUCKET_REST_S 0.3 // three ticks
#define WEIR_BUCKET_LIMIT_S 1.0 // a request without an end is given up
#define WEIR_BUCKET_ELEPHANT 0.5 // of a worker's time
#define WEIR_BUCKET_TELL_S 600.0 // an elephant that comes and goes is told of once in so long

struct weir_bucket_moves;

struct weir_bucket_request {
	uint32_t bucket, victim, thief;
	uint32_t id; // for the answer; not 0
};

// workers: 1..WEIR_WORKERS_MAX. look: where to start from. Returns 0 or -ENOMEM.
int weir_bucket_moves_create(
	uint32_t workers, const struct weir_bucket_look *look, struct weir_bucket_moves **ret);
void weir_bucket_moves_free(struct weir_bucket_moves *moves); // NULL is fine

// A tick: measure, and decide what to ask for unless stealing is off.
void weir_bucket_moves_tick(struct weir_bucket_moves *moves, const struct weir_bucket_look *look,
	bool stealing, double now);
// Between ticks, while something is pending: see which buckets have arrived.
void weir_bucket_moves_note(
	struct weir_bucket_moves *moves, const struct weir_bucket_look *look, double now);
// The next request that is to be sent now, if there is one. It then waits for its answer.
bool weir_bucket_moves_next(struct weir_bucket_moves *moves, struct weir_bucket_request *ret);
// The victim has answered. Refused: the bucket stays. Confirmed: it will move. Any numbers may be
// passed; an answer to no pending request changes nothing.
void weir_bucket_moves_answer(
	struct weir_bucket_moves *moves, uint32_t bucket, uint32_t id, bool confirmed, double now);

// --- to look at ---

// Requests that are not answered, or confirmed and not carried out.
uint32_t weir_bucket_moves_pending(const struct weir_bucket_moves *moves);
// Load of a worker, with what its pending requests will change; 1 = all of its time.
double weir_bucket_moves_load(const struct weir_bucket_moves *moves, uint32_t worker);

struct weir_bucket_summary { // of one worker
	uint32_t buckets; // that it has
	uint32_t elephants; // of them
	uint32_t hottest; // the one with the most load, WEIR_BUCKETS = none has any
	double hottest_load; // of its time
};
struct weir_bucket_summary weir_bucket_moves_summary(
	const struct weir_bucket_moves *moves, uint32_t worker);

// The next bucket that has become an elephant and was not returned in the last WEIR_BUCKET_TELL_S.
// Returns false when there is none.
bool weir_bucket_moves_elephant(struct weir_bucket_moves *moves, uint32_t *ret_bucket,
	uint32_t *ret_worker, double *ret_load);
