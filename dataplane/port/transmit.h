// SPDX-License-Identifier: BSD-3-Clause
//
// Transmit: how each worker sends on each device. A worker that has a transmit queue of its own
// uses it; another one puts packets into a ring to the worker that owns a queue. That worker takes
// only as many packets from the ring as fit the queue: a full queue fills the ring, and the sender,
// which has the packets' verdicts, counts the drop.
//
// Packets of a worker leave in order. When a flow moves to another worker (moves.h), its later
// packets must not overtake those in a ring (weir_path_is_given) or in another queue of the device
// (departure.h).
//
// Threads: paths are made by main before workers run. A path and an outlet are used by one worker
// each.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "device.h"
#include "verdict.h"

struct rte_ring;

#define WEIR_STUCK_TURNS 256 // without an accepted packet: the device may be stuck

// Packets that the owner of a queue has taken from another worker's ring and not sent yet.
struct weir_outlet {
	struct rte_ring *ring;
	struct weir_path *own; // of the owner, by that queue
	uint16_t first; // of the waiting ones
	uint16_t waiting;
	uint64_t sent; // packets ever; read by workers that put into the ring
	uint32_t in_vain; // consecutive turns in which the device accepted nothing, up to
			  // WEIR_STUCK_TURNS; read by them, too
	// Of departure.h.
	uint32_t asked; // by the worker that puts into the ring; odd: a request
	uint32_t answered; // the last request that was confirmed; read by that worker
	uint32_t noted; // the last request that the owner has seen
	uint64_t noted_put; // packets put into the queue before that
	struct rte_mbuf *pkts[WEIR_BURST];
} __attribute__((aligned(64)));

// How one worker sends on one device.
struct weir_path {
	struct rte_ring *ring; // NULL: the queue is its own
	struct weir_outlet *outlet; // of the ring
	// Total number of packets put into the ring; or, by any worker, into the queue
	uint64_t put;
	uint16_t device; // DPDK's port id
	uint16_t queue;
	uint16_t descriptors; // of the queue
	bool multi_segment;
	uint32_t frame_max;
} __attribute__((aligned(64)));

struct weir_transmit {
	uint32_t devices;
	uint32_t workers;
	struct weir_outlet *outlet; // [outlets]
	uint8_t *outlet_owner; // [outlets]: worker
	uint16_t outlets;
	struct weir_path path[WEIR_DEVICES_MAX][WEIR_WORKERS_MAX];
};

// owner[d]: the worker that has queue 0 of device d. Returns 0 or -ENOMEM.
int weir_transmit_create(const struct weir_device *devices, const uint32_t *owner, uint32_t n,
	uint32_t workers, struct weir_transmit **ret);
// Also frees waiting packets; NULL is allowed
void weir_transmit_free(struct weir_transmit *transmit);

// True if this packet may be sent on the path, false if it is too long. A packet in several buffers
// is moved into one if the device needs that. [worker]
static inline bool weir_path_admits(const struct weir_path *path, struct rte_mbuf *m) {
	return m->pkt_len <= path->frame_max &&
	       (m->nb_segs == 1 || path->multi_segment || rte_pktmbuf_linearize(m) == 0);
}

// Send. Returns the number of packets sent, from the first on; the caller keeps the rest. [worker]
uint16_t weir_path_send(struct weir_path *path, struct rte_mbuf **pkts, uint16_t n);

// True if the first `put` packets that were put into the path's ring have been given to the device.
// [worker]
static inline bool weir_path_is_given(const struct weir_path *path, uint64_t put) {
	return path->ring == NULL || __atomic_load_n(&path->outlet->sent, __ATOMIC_ACQUIRE) >= put;
}

// The total number of packets of the path's ring that were given to the device. [worker]
static inline uint64_t weir_path_sent(const struct weir_path *path) {
	return path->ring == NULL ? 0 : __atomic_load_n(&path->outlet->sent, __ATOMIC_ACQUIRE);
}

// True if the device has accepted nothing in WEIR_STUCK_TURNS turns of the worker that has its
// queue. False while that worker makes no progress itself. [worker]
static inline bool weir_path_is_stuck(const struct weir_path *path) {
	return path->ring != NULL &&
	       __atomic_load_n(&path->outlet->in_vain, __ATOMIC_RELAXED) == WEIR_STUCK_TURNS;
}

// True if the path's ring has room for n packets. Always true for a queue of the worker's own:
// drivers do not report its room. [worker]
bool weir_path_has_room(const struct weir_path *path, uint32_t n);

// Move packets from the ring to the queue. Returns how many were sent. [its owner]
uint16_t weir_outlet_drain(struct weir_outlet *outlet);
