// SPDX-License-Identifier: BSD-3-Clause
//
// Shift: after buckets have moved, updates the RSS redirection table (RETA) of a device that
// spreads flows (rss.h), so that packets of the buckets arrive at the queue of their new owner,
// without a reordered packet. Before the update, and if the update fails, the distributor of the
// former queue passes the packets on through its ring: a shift only saves this cost.
//
// An entry of the RETA has all buckets with equal low bits. The worker of these buckets, the
// *owner*, receives the new queue; the workers that receive the other queues of the port are the
// *senders*. Any sender may have received the buckets' packets until now.
//
//   1. weir_shift_request [main]: the owner refuses if it does not own all of the buckets, or if a
//      bucket is leaving. Otherwise the owner *holds* packets of the buckets that arrive at the new
//      queue, and processes packets that arrive through the senders' rings. The owner gives none of
//      the buckets away.
//   2. main updates the RETA, and gives the device time to store packets that are on their way to
//      the previous queue.
//   3. weir_shift_drain [main]: each sender polls until its queue is empty, or until it has
//      received more packets than a device can store. Then the sender records the *end*: the total
//      number of packets that it has put into the owner's ring.
//   4. When the owner has taken this number of packets from each sender's ring, it processes the
//      held packets, in order, and the shift has ended.
//
// A slow worker delays only the shift and the held packets. Only one shift is made at a time. If a
// RETA is changed externally, packets in flight may be reordered, and later packets go through a
// ring; no packet is lost, and distributors need no notification.
//
// tests/models/shift.pml is a model of shifts together with moves of buckets (moves.h): M1 to M4
// hold in all executions of the model.
//
// Threads: [main] and [owner] as marked; senders by distributor.h. S1 for the workers: no lock, no
// allocation, no log, no system call.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributor.h"

#define WEIR_SHIFT_OTHERS_MAX 63

enum weir_shift_state {
	WEIR_SHIFT_NOTHING, // [main] may request a shift
	WEIR_SHIFT_REQUESTED, // the owner must answer
	WEIR_SHIFT_REFUSED, // [main] may request a shift
	WEIR_SHIFT_HOLDING, // [main] may update the RETA
	WEIR_SHIFT_DRAINING, // the owner ends the shift when all senders have recorded their ends
};

struct weir_shift {
	uint32_t state; // enum weir_shift_state, which defines who writes: main or the owner
	// [main], before ASKED
	const struct weir_distributor
		*into; // distributor of the new queue; its owner owns the buckets
	struct weir_distributor
		*other[WEIR_SHIFT_OTHERS_MAX]; // distributors of the port's other queues
	uint32_t others;
	uint32_t mask; // mask for a bucket's number
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
// Request a shift of the buckets with these bits under the mask, from any queues, to the queue of a
// distributor whose owner owns the buckets. other: the distributors of the port's other queues, at
// most WEIR_SHIFT_OTHERS_MAX. The state must be NOTHING or REFUSED, and becomes HOLDING or REFUSED.
void weir_shift_request(struct weir_moves *moves, uint32_t mask, uint32_t low,
	const struct weir_distributor *into, struct weir_distributor *const *other,
	uint32_t others);
// Call after the update of the RETA has succeeded or failed, and the device has stored all packets
// that it had received before the update. The state must be HOLDING, and becomes NOTHING.
void weir_shift_drain(struct weir_moves *moves);

// --- the owner --------------------------------------------------------------------------------

// Hold the packets, of at most WEIR_BURST, of buckets that shift to this queue, like
// weir_mover_hold.
uint16_t weir_mover_hold_shift(struct weir_mover *mover, const struct weir_distributor *distributor,
	struct rte_mbuf **pkts, uint16_t n, uint8_t in_port, uint16_t *ret_refused);
// Do a step of the shift to this worker. Call between bursts, once per iteration. Returns the held
// packets that may be processed in this iteration, or NULL.
struct weir_hold *weir_mover_shift(struct weir_mover *mover);
// Call after held packets were processed: ends the shift if no held packet is left.
void weir_mover_shift_end(struct weir_mover *mover);
