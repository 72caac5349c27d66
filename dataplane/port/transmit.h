// SPDX-License-Identifier: BSD-3-Clause
//
// Transmit: how each worker sends on each device. A worker that owns a transmit queue sends on this
// queue. A worker without a queue puts packets into a ring to the owner of a queue.
//
// The owner takes only as many packets from the ring as its queue has room for. If the queue is
// full, the ring fills up. A worker that cannot put a packet into the ring drops the packet, and
// counts the drop, because this worker has the packet's verdict.
//
// Packets of a worker leave in order. When a flow moves to another worker (moves.h), its later
// packets must not overtake packets in a ring (weir_path_is_given) or in another queue of the
// device (departure.h).
//
// Threads: paths are created by main before workers run. Each path is used by one worker. An outlet
// is used by the owner of the queue and, where marked, by the worker that puts packets into the
// ring.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "device.h"
#include "verdict.h"

struct rte_ring;

// Number of iterations without an accepted packet after which a device counts as stuck
#define WEIR_STUCK_TURNS 256

// Packets that the owner of a queue has taken from another worker's ring and has not sent yet.
struct weir_outlet {
	struct rte_ring *ring;
	struct weir_path *own; // path of the owner of the queue
	uint16_t first; // index of the first waiting packet in pkts[]
	uint16_t waiting;
	uint64_t sent; // total number of sent packets; read by workers that put into the ring
	// Number of consecutive iterations in which the device accepted no packet, at most
	// WEIR_STUCK_TURNS. Also read by workers that put into the ring.
	uint32_t in_vain;
	// The next four fields are used by departure.h. requested: odd = a request is pending;
	// written by the worker that puts into the ring.
	uint32_t requested;
	uint32_t answered; // last confirmed request; read by the requesting worker
	uint32_t noted; // last request that the owner has read
	// number of packets put into the queue before the owner read the request `noted`
	uint64_t noted_put;
	struct rte_mbuf *pkts[WEIR_BURST];
} __attribute__((aligned(64)));

// The path of one worker to one device: its own transmit queue, or the ring to the owner of a
// queue.
struct weir_path {
	struct rte_ring *ring; // NULL: the worker owns the queue
	struct weir_outlet *outlet; // outlet of the ring
	// With a ring: total number of packets put into the ring. Without a ring: total number of
	// packets that any worker has put into the queue
	uint64_t put;
	uint16_t device; // DPDK's port id
	uint16_t queue;
	uint16_t descriptors; // number of descriptors of the queue
	bool multi_segment;
	uint32_t frame_max;
} __attribute__((aligned(64)));

struct weir_transmit {
	uint32_t devices;
	uint32_t workers;
	struct weir_outlet *outlet; // [outlets]
	uint8_t *outlet_owner; // [outlets] worker that owns the outlet
	uint16_t outlets;
	struct weir_path path[WEIR_DEVICES_MAX][WEIR_WORKERS_MAX];
};

// Create the paths of all workers to n devices. owner[d]: the worker that owns queue 0 of device d.
// Returns 0 or -ENOMEM.
int weir_transmit_create(const struct weir_device *devices, const uint32_t *owner, uint32_t n,
	uint32_t workers, struct weir_transmit **ret);
// Free all paths and waiting packets. NULL is allowed.
void weir_transmit_free(struct weir_transmit *transmit);

// Returns true if this packet may be sent on the path. A packet in several buffers is copied into
// one buffer if the device cannot send several buffers. Returns false if the packet is too long for
// the path or for this buffer. [worker]
static inline bool weir_path_admits(const struct weir_path *path, struct rte_mbuf *m) {
	return m->pkt_len <= path->frame_max &&
	       (m->nb_segs == 1 || path->multi_segment || rte_pktmbuf_linearize(m) == 0);
}

// Send packets, or put them into the ring. Returns the number of these packets, which are the first
// packets in pkts. The caller keeps the other packets. [worker]
uint16_t weir_path_send(struct weir_path *path, struct rte_mbuf **pkts, uint16_t n);

// Returns true if the first `put` packets that were put into the path's ring have been passed to
// the device. Always true if the worker owns the queue. [worker]
static inline bool weir_path_is_given(const struct weir_path *path, uint64_t put) {
	return path->ring == NULL || __atomic_load_n(&path->outlet->sent, __ATOMIC_ACQUIRE) >= put;
}

// Returns the total number of packets from the path's ring that were passed to the device; 0 if the
// worker owns the queue. [worker]
static inline uint64_t weir_path_sent(const struct weir_path *path) {
	return path->ring == NULL ? 0 : __atomic_load_n(&path->outlet->sent, __ATOMIC_ACQUIRE);
}

// Returns true if the device has accepted no packet in WEIR_STUCK_TURNS iterations of the worker
// that owns the queue. False if this worker owns the queue. The result does not change while the
// owner makes no progress. [worker]
static inline bool weir_path_is_stuck(const struct weir_path *path) {
	return path->ring != NULL &&
	       __atomic_load_n(&path->outlet->in_vain, __ATOMIC_RELAXED) == WEIR_STUCK_TURNS;
}

// Returns true if the path's ring has room for n packets. Always true if the worker owns the queue,
// because drivers do not report free descriptors. [worker]
bool weir_path_has_room(const struct weir_path *path, uint32_t n);

// Move packets from the ring to the queue, and answer a request (departure.h). Returns the number
// of packets sent. [owner of the queue]
uint16_t weir_outlet_drain(struct weir_outlet *outlet);
