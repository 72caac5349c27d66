// SPDX-License-Identifier: BSD-3-Clause
//
// Shift: after buckets have moved, the table of a device that spreads flows (rss.h) is changed, so
// that their packets come to the queue of the worker that has them now, without a reordered packet.
// Until then, and where a device refuses, the distributor of their former queue passes them on by
// its ring: a shift makes that cheap, no more.
//
// An entry of the table has all buckets with the same low bits. Their worker, the *owner*, receives
// the new queue; those that receive the other queues of the port are the *senders*: which of them
// had the buckets until now need not be known.
//
//   1. weir_shift_ask [main]: the owner refuses if it has not all of the buckets, or one of them is
//      leaving. Else it *holds*: packets of the buckets that come from the new queue wait; those
//      that come by the sender's ring are processed. It gives none of the buckets away.
//   2. main has the device change its table, and gives it time to store what is on its way to the
//      former queue.
//   3. weir_shift_drain [main]: each sender polls until its queue is empty, or until it has
//   received
//      more than a device can store, and notes the *end*: how many packets it ever put into the
//      owner's ring.
//   4. When the owner has taken as many from these rings, it processes what it holds, in order.
//   Then the
//      shift has ended.
//
// Whoever is slow delays the shift, and its packets on hold, and nothing else. There is one shift
// at a time. A table that others change costs the order of packets that are on their way at that
// moment, and from then on a ring: no packet is lost, and distributors need not know of it.
//
// tests/models/shift.pml is a model of this together with moves of buckets (moves.h): M1 to M4 hold
// in all its executions.
//
// Threads: [main] and [owner] as marked; senders by distributor.h. S1 for the workers: no lock, no
// allocation, no log, no system call.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributor.h"

#define WEIR_SHIFT_OTHERS_MAX 63

enum weir_shift_state {
	WEIR_SHIFT_NOTHING, // [main]'s: it may ask
	WEIR_SHIFT_ASKED, // the owner's
	WEIR_SHIFT_REFUSED, // [main]'s: it may ask
	WEIR_SHIFT_HOLDING, // [main]'s: the device may change its table
	WEIR_SHIFT_DRAINING, // the owner's, when the senders have noted their ends
};

struct weir_shift {
	uint32_t state; // enum weir_shift_state: written by whose it is
	// [main], before ASKED
	const struct weir_distributor *into; // that of the new queue: its owner is the buckets'
	struct weir_distributor *other[WEIR_SHIFT_OTHERS_MAX]; // those of the port's other queues
	uint32_t others;
	uint32_t mask; // of a bucket's number
	uint32_t low; // what the buckets of the entry have there
} __attribute__((aligned(64)));

struct weir_hold;
struct weir_mover;
struct weir_moves;
struct rte_mbuf;

static inline bool weir_shift_has(const struct weir_shift *shift, uint32_t bucket) {
	return (bucket & shift->mask) == shift->low;
}

// --- main -------------------------------------------------------------------------------------

enum weir_shift_state weir_shift_state(const struct weir_moves *moves);
// Ask for a shift of the buckets with this number under the mask to a queue, whose worker is to
// have them, from wherever they are. other: the distributors of the port's other queues, at most
// WEIR_SHIFT_OTHERS_MAX. The state is NOTHING or REFUSED; it will be HOLDING or REFUSED.
void weir_shift_ask(struct weir_moves *moves, uint32_t mask, uint32_t low,
	const struct weir_distributor *into, struct weir_distributor *const *other,
	uint32_t others);
// The device has changed its table, or refused: whatever it does now, it has stored all packets
// that it had before. The state is HOLDING; it will be NOTHING.
void weir_shift_drain(struct weir_moves *moves);

// --- the owner --------------------------------------------------------------------------------

// Hold the packets, of at most WEIR_BURST, of buckets that shift to this queue; as weir_mover_hold.
uint16_t weir_mover_hold_shift(struct weir_mover *mover, const struct weir_distributor *distributor,
	struct rte_mbuf **pkts, uint16_t n, uint8_t in_port, uint16_t *ret_refused);
// A step of the shift to this worker, between bursts. Returns the packets on hold, if they may be
// processed now: as many as are due, once per turn; else NULL.
struct weir_hold *weir_mover_shift(struct weir_mover *mover);
// After packets on hold were processed: ends the shift if none is left.
void weir_mover_shift_end(struct weir_mover *mover);
