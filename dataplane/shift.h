// SPDX-License-Identifier: BSD-3-Clause
//
// Shift: after buckets have moved, updates the RSS redirection table (RETA) of a device that
// spreads flows (rss.h), so that their packets arrive at the queue of the worker that owns them
// now, without a reordered packet. Until then, and where an update fails, the distributor of their
// former queue passes them on through its ring: a shift only makes that cheaper.
//
// An entry of the RETA has all buckets with the same low bits. Their worker, the *owner*, receives
// the new queue; the workers that receive the other queues of the port are the *senders*. It does
// not matter which of them received the buckets' packets until now.
//
//   1. weir_shift_request [main]: the owner refuses if it does not own all of the buckets, or if
//      one of them is leaving. Otherwise it *holds* packets of the buckets that arrive at the new
//      queue, and processes those that arrive through the senders' rings. It gives none of the
//      buckets away.
//   2. main updates the RETA, and gives the device time to store packets that are on their way to
//      the previous queue.
//   3. weir_shift_drain [main]: each sender polls until its queue is empty, or until it has
//      received more packets than a device can store, and notes the *end*: how many packets it ever
//      put into the owner's ring.
//   4. When the owner has taken as many from these rings, it processes the held packets, in order,
//      and the shift has ended.
//
// A slow worker delays the shift and the held packets, nothing else. There is one shift at a time.
// If a RETA is changed externally, packets in flight at that moment may be reordered, and later
// ones take the way through a ring; none is lost, and distributors need no notice.
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
	WEIR_SHIFT_NOTHING, // [main] may request one
	WEIR_SHIFT_ASKED, // the owner answers
	WEIR_SHIFT_REFUSED, // [main] may request one
	WEIR_SHIFT_HOLDING, // [main] may update the RETA
	WEIR_SHIFT_DRAINING, // the owner ends it when the senders have noted their ends
};

struct weir_shift {
	uint32_t state; // enum weir_shift_state: written by main or the owner, see there
	// [main], before ASKED
	const struct weir_distributor *into; // of the new queue; its owner owns the buckets
	struct weir_distributor *other[WEIR_SHIFT_OTHERS_MAX]; // those of the port's other queues
	uint32_t others;
	uint32_t mask; // of a bucket's number
	uint32_t low; // the bits under the mask that the entry's buckets share
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
// Request a shift of the buckets with these bits under the mask, from whichever queues, to the
// queue of a distributor, whose owner owns them. other: the distributors of the port's other
// queues, at most WEIR_SHIFT_OTHERS_MAX. The state is NOTHING or REFUSED; it will be HOLDING or
// REFUSED.
void weir_shift_request(struct weir_moves *moves, uint32_t mask, uint32_t low,
	const struct weir_distributor *into, struct weir_distributor *const *other,
	uint32_t others);
// The update of the RETA has succeeded or failed, and the device has stored all packets that it had
// received before. The state is HOLDING; it will be NOTHING.
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
