// SPDX-License-Identifier: BSD-3-Clause
//
// Bucket loads: computes the load of each bucket of flows (WEIR_BUCKETS in segment/layout.h): the
// share of the owning worker's time that the bucket uses. The load is computed from counters of the
// workers: packets of each bucket, and busy and idle cycles of each worker.
//
// The busy time of a worker is divided among its buckets in proportion to their packets. A worker
// that distributes the packets of a port to other workers needs additional time, called its base,
// which does not decrease when buckets move away from the worker. The base is the worker's busy
// time minus the time for the packets of its own buckets; this time for packets is estimated from
// the time per packet of workers that distribute no packets. Loads and bases are moving averages
// (steal_duration.h), as shares of one worker's time: 1 = all of it.
//
// The cost of moving a bucket is also measured, as a moving average of the cycles that both workers
// need to hand a bucket over. After WEIR_BUCKET_MOVE_TICKS ticks without a move, the measured cost
// is discarded. Otherwise a few expensive moves, for example on a busy machine, could prevent all
// later moves.
//
// Threads: one. No clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "segment.h"
#include "steal_duration.h"

#define WEIR_BUCKET_NO_WORKER UINT32_MAX
#define WEIR_BUCKET_MOVE_S 20e-6 // assumed cost of a move, in seconds of a worker's time
#define WEIR_BUCKET_MOVE_TICKS 300u

// Counters of the workers at one time.
struct weir_bucket_look {
	uint64_t packets[WEIR_BUCKETS]; // packets of all ports
	uint32_t owner[WEIR_BUCKETS]; // owning worker, or WEIR_BUCKET_NO_WORKER
	struct {
		uint64_t busy_cycles, idle_cycles;
		uint64_t handed_over; // packets passed to other workers
		bool alive;
	} worker[WEIR_WORKERS_MAX];
	// Sums over all workers: number of buckets handed over, and cycles spent on handing them
	// over.
	uint64_t moves, move_cycles;
	double hz; // cycles per second
};

struct weir_bucket_load {
	uint64_t packets; // counter at the last reading
	uint64_t window; // packets since the last tick
	uint32_t owner;
	struct weir_steal_duration load;
};

struct weir_bucket_worker {
	uint64_t busy_cycles, idle_cycles, handed_over; // counters at the last tick
	uint64_t window; // packets of the worker's buckets since the last tick
	double share; // busy share of the worker's time between the last two ticks; 0..1
	struct weir_steal_duration base;
	bool alive; // the worker is alive, and has counted cycles since the previous tick
};

struct weir_bucket_loads {
	uint32_t workers;
	struct weir_bucket_load bucket[WEIR_BUCKETS];
	struct weir_bucket_worker worker[WEIR_WORKERS_MAX];
	uint64_t moves, move_cycles; // counters at the last tick with a move
	// Time in seconds that both workers together need to hand a bucket over.
	struct weir_steal_duration move;
	uint32_t ticks; // ticks since the last tick with a move
};

// Read the counters of the workers. The dataplane of the segment must use buckets. now_ns:
// CLOCK_MONOTONIC.
void weir_bucket_look_take(
	struct weir_bucket_look *look, const struct weir_segment *segment, uint64_t now_ns);

// Initializes the loads. look: the counters at the start. workers: 1..WEIR_WORKERS_MAX.
void weir_bucket_loads_init(
	struct weir_bucket_loads *loads, uint32_t workers, const struct weir_bucket_look *look);
// Call this function between ticks when the owners of buckets may have changed, so that packets are
// counted for the worker that owned their bucket when they arrived.
void weir_bucket_loads_note(struct weir_bucket_loads *loads, const struct weir_bucket_look *look);
// Measures the loads since the last tick. Call this function about every 100 ms; the exact time
// between two ticks does not matter.
void weir_bucket_loads_tick(struct weir_bucket_loads *loads, const struct weir_bucket_look *look);

// Returns the load of a bucket; 0 if it is unknown.
double weir_bucket_loads_of(const struct weir_bucket_loads *loads, uint32_t bucket);
// Returns the base of a worker; 0 if it is unknown.
double weir_bucket_loads_base(const struct weir_bucket_loads *loads, uint32_t worker);
// Returns the time in seconds that two workers together need to hand a bucket over;
// WEIR_BUCKET_MOVE_S if it is unknown.
double weir_bucket_loads_move(const struct weir_bucket_loads *loads);
