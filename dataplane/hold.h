// SPDX-License-Identifier: BSD-3-Clause
//
// Hold queue: stores packets in order. They are packets of a bucket that moves to this worker
// (moves.h), or of the buckets whose receive queue changes (shift.h). The packets wait until
// earlier packets of the buckets have been processed and, in a move, the bucket's part of the flow
// table has arrived.
//
// Threads: a queue is used by one worker.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>
#include <rte_mbuf.h>

#include "distributor.h"
#include "verdict.h"

#define WEIR_HOLD_PACKETS (2u * WEIR_DISTRIBUTOR_RING) // power of two

struct weir_held {
	struct rte_mbuf *packet;
	uint8_t in_port;
};

struct weir_hold {
	uint32_t first;
	uint32_t next;
	uint32_t seen; // value of `next` in the last iteration that processed held packets
	struct weir_held held[WEIR_HOLD_PACKETS];
};

// Hold a packet at the end of the queue. in_port: the port that has received the packet. Returns
// false if the queue is full.
static inline bool weir_hold_put(struct weir_hold *hold, struct rte_mbuf *packet, uint8_t in_port) {
	if (hold->next - hold->first == WEIR_HOLD_PACKETS) {
		return false;
	}
	hold->held[hold->next++ % WEIR_HOLD_PACKETS] =
		(struct weir_held){.packet = packet, .in_port = in_port};
	return true;
}

static inline uint32_t weir_hold_count(const struct weir_hold *hold) {
	return hold->next - hold->first;
}

static inline bool weir_hold_is_empty(const struct weir_hold *hold) {
	return hold->first == hold->next;
}

// Start to process held packets. In each iteration, process as many packets as weir_hold_due
// returns.
static inline void weir_hold_begin(struct weir_hold *hold) {
	hold->seen = hold->next;
}

// Returns the maximum number of packets to process in this iteration: packets added since the last
// iteration plus a burst, so that the queue drains at any arrival rate. Call once per iteration.
static inline uint32_t weir_hold_due(struct weir_hold *hold) {
	uint32_t came = hold->next - hold->seen;

	hold->seen = hold->next;
	return RTE_MIN(came + WEIR_BURST, hold->next - hold->first);
}

// Take the next packets out of the queue, at most max packets, all from one port. *ret_in_port: the
// port that has received the packets. Returns the number of packets, 0 if the queue is empty.
static inline uint16_t weir_hold_take(
	struct weir_hold *hold, struct rte_mbuf **pkts, uint16_t max, uint8_t *ret_in_port) {
	uint16_t n = 0;

	while (n < max && hold->first != hold->next) {
		const struct weir_held *held = &hold->held[hold->first % WEIR_HOLD_PACKETS];

		if (n > 0 && held->in_port != *ret_in_port) {
			break;
		}
		*ret_in_port = held->in_port;
		pkts[n++] = held->packet;
		hold->first++;
	}
	return n;
}

static inline void weir_hold_free(struct weir_hold *hold) {
	for (; hold->first != hold->next; hold->first++) {
		rte_pktmbuf_free(hold->held[hold->first % WEIR_HOLD_PACKETS].packet);
	}
}
