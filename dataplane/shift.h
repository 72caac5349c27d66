// SPDX-License-Identifier: BSD-3-Clause
//
// Shift: after buckets have moved, updates the RSS redirection table (RETA) of a device that
// spreads flows (rss.h) without reordering packets. Packets of the buckets then arrive at the queue
// of their new owner. Before the update, and if the update fails, the distributor of the previous
// queue passes the packets to the owner through a ring. The only purpose of a shift is to save the
// cost of the ring.
//
// All buckets with the same low bits belong to one entry of the RETA. The worker of these buckets,
// the *owner*, polls the new queue. The workers that poll the other queues of the port are the
// *senders*. Any sender may have received the buckets' packets until now.
//
//   1. weir_shift_request [main]: the owner refuses if it does not own all of the buckets, or if
//      one of the buckets is moving to another worker. Otherwise the owner *holds* packets of the
//      buckets that arrive at the new queue, and processes packets that arrive through the senders'
//      rings. Meanwhile the owner gives none of the buckets to another worker.
//   2. main updates the RETA. Then main waits long enough for packets that are on their way to the
//      previous queue to arrive there.
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
// Threads: [main] and [owner] as marked; for the senders, see distributor.h. For the workers: no
// lock, no allocation, no log, no system call (S1, docs/design/architecture.md).
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "distributor.h"

#define WEIR_SHIFT_OTHERS_MAX 63

enum weir_shift_state {
	WEIR_SHIFT_NOTHING, // no shift is in progress; main can request a shift
	WEIR_SHIFT_REQUESTED, // the owner must accept or refuse the shift
	WEIR_SHIFT_REFUSED, // the owner has refused the shift; main can request a shift
	WEIR_SHIFT_HOLDING, // the owner holds packets; main can update the RETA
	// The senders record their ends; then the owner processes the held packets and ends the
	// shift
	WEIR_SHIFT_DRAINING,
};

struct weir_shift {
	// enum weir_shift_state. The owner writes it while REQUESTED or DRAINING, otherwise main.
	uint32_t state;
	// [main], before the state becomes REQUESTED
	const struct weir_distributor
		*into; // distributor of the new queue; its owner owns the buckets
	struct weir_distributor
		*other[WEIR_SHIFT_OTHERS_MAX]; // distributors of the port's other queues
	uint32_t others;
	uint32_t mask; // mask for the index of a bucket
	uint32_t low; // masked index of the entry's buckets
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
// Requests a shift of the buckets whose masked index is `low` to the queue of the distributor
// `into`. The owner of `into` refuses if it does not own all of the buckets. Before the shift,
// packets of the buckets may arrive at any queue of the port. mask: mask for the index of a bucket.
// other: the distributors of the port's other queues; others: their number, at most
// WEIR_SHIFT_OTHERS_MAX. The state must be NOTHING or REFUSED. The state becomes REQUESTED and,
// when the owner has answered, HOLDING or REFUSED.
void weir_shift_request(struct weir_moves *moves, uint32_t mask, uint32_t low,
	const struct weir_distributor *into, struct weir_distributor *const *other,
	uint32_t others);
// Call after the update of the RETA has succeeded or failed, when all packets that the device had
// received before the update are in its queues. The state must be HOLDING. It becomes DRAINING and,
// when the owner has ended the shift, NOTHING.
void weir_shift_drain(struct weir_moves *moves);

// --- the owner --------------------------------------------------------------------------------

// Hold the packets of buckets that shift to the queue of a distributor. Call only if
// weir_mover_is_shifting. Parameters and result are as for weir_mover_hold.
uint16_t weir_mover_hold_shift(struct weir_mover *mover, const struct weir_distributor *distributor,
	struct rte_mbuf **pkts, uint16_t n, uint8_t in_port, uint16_t *ret_refused);
// Do a step of the shift to this worker. Call between bursts, once per iteration, only if
// weir_mover_is_shifting. Returns the queue of held packets if some of them may be processed in
// this iteration (at most weir_hold_due), otherwise NULL.
struct weir_hold *weir_mover_shift(struct weir_mover *mover);
// Call after held packets were processed, only if weir_mover_shift has returned their queue: ends
// the shift if no held packet is left.
void weir_mover_shift_end(struct weir_mover *mover);
