// SPDX-License-Identifier: BSD-3-Clause
//
// Moves: hands over buckets of flows between workers, without losing or reordering packets.
//
// A bucket's owner is the worker that has the bucket's part of the flow table. The distributors of
// the ports or queues pass the packets of a bucket to its owner (distributor.h). A move from the
// victim to the thief has five steps:
//
//   1. weir_mover_request: the victim refuses the request, or confirms it and begins the move. To
//      begin, the victim writes 1 + its index into the thief's `taking`; from then on the thief
//      holds packets of the bucket.
//   2. The victim requests a switch from every distributor. A distributor switches between two
//      bursts: from then on, it puts the packets of the bucket into the thief's ring. It records
//      the number of packets that it has put into the victim's ring until then (the *end*).
//   3. When the victim has taken this number of packets from each of its rings, no packet of the
//      bucket is left in the rings. The victim then releases the part in slices. It waits until
//      packets from the thief can no longer overtake packets that the victim has processed, unless
//      a device is stuck or the thief's hold queue fills up. Then it hands the part to the thief.
//   4. The thief adopts the part in slices, then processes the held packets in order, and publishes
//      itself as owner.
//   5. The victim subtracts the bucket's flows from its gauges. This step is last, so that the sum
//      over workers is never too low: control frees a backend when the sum is 0.
//
// A move begins and ends at positions in the packet stream, not at fixed times. Therefore a slow
// worker delays only the packets of this bucket. Control and the distributors request moves; only
// workers make them. A worker can be the victim of one move and the thief of one move at the same
// time.
//
// tests/models/moves.pml is a model of moves and of distributor.h: M1 to M4 hold in all executions
// of the model.
//   M1 no packet of a bucket is processed by a worker that does not have the bucket's part
//   M2 packets of a flow are processed in the order in which their port received them
//   M3 a move loses no packet, except packets that a full hold queue refuses, which are counted
//   M4 every move that has begun ends, and then the thief is the owner; a refused request has no
//      effect
//
// Threads: each function with a mover is called by the worker of the mover; set-up and
// weir_moves_free are called while no worker runs. No lock, no allocation, no log, no system call
// (S1, docs/design/architecture.md).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributor.h"
#include "hold.h"
#include "layout.h"
#include "shift.h"

#define WEIR_URGENT_NS 1000000ull // minimum time between two requests of a distributor

struct rte_mbuf;
struct weir_flow_parcel;

enum weir_moving {
	WEIR_MOVING_NOTHING, // the victim may begin a move
	WEIR_MOVING_SWITCHING, // distributors switch, and the victim's rings are drained
	WEIR_MOVING_RELEASING, // the victim removes the bucket's flows from its table
	WEIR_MOVING_RELEASED, // the thief adopts the bucket's flows
	WEIR_MOVING_ADOPTED, // the victim subtracts the bucket's flows from its gauges
};

// The move of a bucket away from one worker, the victim.
struct weir_move {
	uint32_t state; // enum weir_moving; written by the victim; while RELEASED, by the thief
	uint32_t bucket; // written by the victim while the state is NOTHING
	uint32_t thief; // written by the victim while the state is NOTHING
	struct weir_flow_parcel *parcel; // used by the worker that writes the state next; borrowed
} __attribute__((aligned(64)));

// The state of one worker for moves of buckets, as victim and as thief.
struct weir_mover {
	// 0 = none, otherwise 1 + index of the victim; [victim] sets it, [worker] clears it
	uint64_t taking;
	uint64_t urgent; // a distributor's request; [distributors] set it, [worker] clears it
	// 0 or 1: moves->shift is for this worker. [main] sets it, [worker] clears it
	uint64_t shifting;
	// 0 or 1: at least half of `hold` has been in use in this move. [worker] writes it, the
	// victim of its move reads it
	uint64_t crowded;
	uint64_t reserved[4];
	// The move with this worker as the victim
	struct weir_move move __attribute__((aligned(64)));
	// All fields below: [worker]
	struct weir_moves *moves;
	uint32_t worker;
	bool adopted; // the part is in this worker's table: held packets may be processed
	bool shift_holds; // packets of shifting buckets are held
	bool shift_due; // held packets of shifting buckets may be processed
	// Total number of packets taken from each distributor's ring
	uint64_t taken[WEIR_DISTRIBUTORS_MAX];
	struct weir_hold hold; // packets of the bucket that is moving to this worker
	struct weir_hold shift_hold; // packets of shifting buckets
} __attribute__((aligned(64)));

struct weir_moves_params {
	uint32_t workers;
	struct weir_distributor *const *distributor; // [distributors], by number; borrowed
	uint32_t distributors;
	struct weir_flow_parcel *const *parcel; // [workers]; borrowed
	int socket;
};

struct weir_moves {
	uint32_t workers;
	uint32_t distributors;
	struct weir_distributor *distributor[WEIR_DISTRIBUTORS_MAX];
	uint8_t owner[WEIR_BUCKETS]; // written by the adopting [worker]; relaxed
	struct weir_shift shift;
	struct weir_mover mover[]; // [workers]
};

// Create the data for moves. The initial owners of the buckets are read from the distributors,
// which must agree. Returns 0, -EINVAL (fewer than two or more than WEIR_WORKERS_MAX workers, no
// distributor or more than WEIR_DISTRIBUTORS_MAX, a distributor that is NULL or has a wrong number
// or number of workers, distributors that do not agree), -ENOMEM. [set-up]
int weir_moves_create(const struct weir_moves_params *params, struct weir_moves **ret);
void weir_moves_free(struct weir_moves *moves); // also frees held packets; NULL is allowed

// --- victim and thief -------------------------------------------------------------------------

// Record that the worker has taken n packets from the ring of a distributor. Call before the
// packets are processed.
static inline void weir_mover_took(struct weir_mover *mover, uint32_t distributor, uint16_t n) {
	mover->taken[distributor] += n;
}

// Request that this worker gives a bucket to the thief. Call between bursts. deadline_ns: time
// after which the request is refused, on the same clock as now_ns. stealing: whether stealing is
// enabled. Returns WEIR_BUCKET_CONFIRMED, or the reason why the request is refused. A refused
// request has no effect.
enum weir_bucket_answer weir_mover_request(struct weir_mover *mover, uint32_t bucket,
	uint32_t thief, uint64_t deadline_ns, uint64_t now_ns, bool stealing);

// --- the victim -------------------------------------------------------------------------------

enum weir_giving {
	WEIR_GIVING_NOTHING, // nothing to do now
	WEIR_GIVING_RELEASE, // release a slice; after the last slice call weir_mover_released
	// Update a slice of the gauges; after the last slice call weir_mover_settled.
	WEIR_GIVING_SETTLE,
};

// Does the next step of mover->move. Call between bursts.
enum weir_giving weir_mover_give_slow(struct weir_mover *mover);

static inline enum weir_giving weir_mover_give(struct weir_mover *mover) {
	return __builtin_expect(
		       __atomic_load_n(&mover->move.state, __ATOMIC_RELAXED) == WEIR_MOVING_NOTHING,
		       1)
		       ? WEIR_GIVING_NOTHING
		       : weir_mover_give_slow(mover);
}

// Returns true if the thief holds, or has held in this move, so many packets that it may soon have
// to drop packets.
static inline bool weir_mover_thief_is_crowded(const struct weir_mover *mover) {
	return __atomic_load_n(&mover->moves->mover[mover->move.thief].crowded, __ATOMIC_RELAXED) !=
	       0;
}

void weir_mover_released(struct weir_mover *mover);
void weir_mover_settled(struct weir_mover *mover);

// --- the thief --------------------------------------------------------------------------------

// Returns true if this worker is taking a bucket. Call after packets were taken from a ring, before
// they are processed.
static inline bool weir_mover_is_taking(const struct weir_mover *mover) {
	return __builtin_expect(__atomic_load_n(&mover->taking, __ATOMIC_ACQUIRE) != 0, 0);
}

// Hold the packets that belong to the bucket that is moving to this worker. Call only if
// weir_mover_is_taking. n: at most WEIR_BURST. Other packets stay in pkts, in order. Returns the
// number of packets that stay. *ret_refused: number of packets of the bucket that were not held
// because the queue is full. In pkts, these packets follow the packets that stay; the caller drops
// them.
uint16_t weir_mover_hold(struct weir_mover *mover, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint16_t *ret_refused);

// Returns the move whose parcel is ready to be adopted, a slice at a time, or NULL. After the last
// slice, call weir_mover_adopted.
const struct weir_move *weir_mover_adopt(struct weir_mover *mover);
void weir_mover_adopted(struct weir_mover *mover);
// Returns the queue of held packets, or NULL if the parcel is not adopted yet. In each iteration,
// process at most as many packets as weir_hold_due returns.
struct weir_hold *weir_mover_held(struct weir_mover *mover);
// Call after held packets were processed. Returns true if the parcel is adopted and no held packet
// is left: then the move has ended, and this worker owns *ret_bucket.
bool weir_mover_end(struct weir_mover *mover, uint32_t *ret_bucket);

// --- the owner of buckets whose queue changes (shift.h) ------------------------------------------

static inline bool weir_mover_is_shifting(const struct weir_mover *mover) {
	return __builtin_expect(__atomic_load_n(&mover->shifting, __ATOMIC_ACQUIRE) != 0, 0);
}

// --- back pressure ------------------------------------------------------------------------------

// Relieves a worker, the victim, whose ring is nearly full. pkts: n packets that the distributor is
// about to put into the ring of the victim. Finds the bucket with the most of these packets, and
// the worker with the shortest ring of this distributor. Requests that the victim gives the bucket
// to the worker with the shortest ring. Makes no request if the shortest ring is more than a
// quarter full, or if the victim has not answered an earlier request. A bucket with more than half
// of the packets stays, because it would also fill the other ring.
//
// Packets must carry their bucket (distributor.h). For each crowded worker, at most one search is
// made per WEIR_URGENT_NS, and none within WEIR_URGENT_NS after a request of this distributor.
// [worker of the distributor]
void weir_moves_press(struct weir_moves *moves, struct weir_distributor *distributor,
	uint32_t victim, struct rte_mbuf *const *pkts, uint16_t n, uint64_t now_ns);

// Take the request that a distributor has made to this worker. *ret_bucket, *ret_thief: arguments
// for weir_mover_request. Returns false if no request is pending.
static inline bool weir_mover_pressed(
	struct weir_mover *mover, uint32_t *ret_bucket, uint32_t *ret_thief) {
	uint64_t urgent = __atomic_load_n(&mover->urgent, __ATOMIC_RELAXED);

	if (__builtin_expect(urgent == 0, 1)) {
		return false;
	}
	*ret_bucket = (uint32_t)(urgent >> 32);
	*ret_thief = (uint32_t)urgent - 1;
	__atomic_store_n(&mover->urgent, 0, __ATOMIC_RELEASE);
	return true;
}
