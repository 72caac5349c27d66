// SPDX-License-Identifier: BSD-3-Clause
//
// Distributor: spreads the packets of a receive queue over the workers. If the device does not
// spread flows, all packets of the port are spread. If the device spreads flows by RSS, a packet is
// passed to another worker only if that worker owns its bucket.
//
// One worker, the queue's owner, polls the queue. The owner finds the bucket of each packet's flow
// (weir_pipeline_distribute), and passes the packet to the bucket's worker through a
// single-producer, single-consumer ring. Because there is one producer and one ring per target,
// packets of a flow stay in order and on one worker.
//
// A bucket can be switched from its worker, the victim, to another worker, the thief (moves.h). The
// victim requests the switch; the owner switches between two bursts, and from then on puts packets
// of the bucket into the thief's ring. The owner answers with the total number of packets that it
// has put into the victim's ring. When the victim has taken this number of packets from its ring,
// no packet of the bucket is left in this ring.
//
// Threads: the owner calls functions marked [owner] and puts packets into rings; worker w takes
// packets from ring[w]. Other marks also name the caller. Functions without a mark are for set-up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "layout.h"

struct rte_ring;

// Maximum number of distributors: one per port, or one per queue of a device that spreads flows.
#define WEIR_DISTRIBUTORS_MAX (WEIR_PORTS_MAX * 64)
// Number of buckets of flows. With up to 64 workers, the numbers of buckets per worker differ by at
// most a sixteenth.
#define WEIR_DISTRIBUTOR_BUCKETS 1024
#define WEIR_DISTRIBUTOR_RING 1024 // size of the ring to one worker, in packets
// A queue counts as drained after this number of received packets, even if it was never empty. A
// device stores fewer packets than this for a queue, in its descriptors and its own buffers.
#define WEIR_DISTRIBUTOR_DRAIN 16384u

// A victim's request for a switch. The brackets name the writer of each field. `requested` of the
// distributor has one bit per victim.
struct weir_switch {
	uint32_t bucket; // [victim], while the victim's bit in `requested` is clear
	uint32_t thief; // [victim], while the victim's bit in `requested` is clear
	// [owner], while the victim's bit is set: total number of packets put into the victim's
	// ring
	uint64_t end;
} __attribute__((aligned(64)));

// A request to drain a queue: the owner must report when it has received all packets that were in
// the queue at the time of the request (shift.h).
struct weir_drain {
	uint32_t target; // [main], while `draining` is clear
	bool begun; // [owner]: the request was read before the queue was polled
	uint64_t left; // [owner]: number of packets to receive until the queue counts as drained
	// [owner], while `draining` is set: total number of packets put into the target's ring
	uint64_t end;
} __attribute__((aligned(64)));

struct weir_distributor {
	uint32_t workers;
	uint32_t owner;
	uint32_t number; // index among all distributors
	struct rte_ring *ring[WEIR_WORKERS_MAX]; // index: target worker; NULL for the owner
	uint8_t worker[WEIR_DISTRIBUTOR_BUCKETS]; // [owner]
	uint64_t put[WEIR_WORKERS_MAX]; // [owner] total number of packets put into each ring
	uint64_t pressed_ns; // [owner] time of the last request by weir_moves_press
	// [owner] times of the last searches of weir_moves_press
	uint64_t looked_ns[WEIR_WORKERS_MAX];
	// [owner] ring[] was more than three quarters full after the last burst for this worker
	bool crowded[WEIR_WORKERS_MAX];
	uint64_t requested
		__attribute__((aligned(64))); // bit per victim: [victim] sets, [owner] clears
	uint64_t draining; // 0 or 1: [main] sets, [owner] clears
	uint64_t reserved[6];
	// requests for switches, indexed by the victim
	struct weir_switch switches[WEIR_WORKERS_MAX];
	struct weir_drain drain;
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "a 64-bit mask must have a bit for each victim");

// Create a distributor. number: its index among all distributors, below WEIR_DISTRIBUTORS_MAX.
// workers: number of workers. owner: the worker that polls the queue. socket: NUMA node of the
// memory. Returns 0, -EINVAL, -ENOMEM (too little DPDK memory).
int weir_distributor_create(uint32_t number, uint32_t workers, uint32_t owner, int socket,
	struct weir_distributor **ret);
// Free the distributor and the packets in rings. NULL is allowed.
void weir_distributor_free(struct weir_distributor *distributor);

// Returns the first owner of a bucket if no device spreads flows (otherwise see
// weir_distribution_first_worker). workers: number of workers.
static inline uint32_t weir_distributor_first_worker(uint32_t bucket, uint32_t workers) {
	return bucket % workers;
}

// Returns the worker to which the distributor passes the packets of a bucket. [owner]
static inline uint32_t weir_distributor_worker(
	const struct weir_distributor *distributor, uint32_t bucket) {
	return distributor->worker[bucket];
}

// The next two functions store the bucket of a packet in the packet, and read it. The distributor's
// owner stores the bucket; the worker that gets the packet reads it. [owner], then [worker]
static inline void weir_distributor_mark(struct rte_mbuf *m, uint32_t bucket) {
	m->hash.usr = bucket;
}

static inline uint32_t weir_distributor_bucket_of(const struct rte_mbuf *m) {
	return m->hash.usr;
}

// --- switches -----------------------------------------------------------------------------------

// Request that the owner switches a bucket from the victim to the thief. A victim may have only one
// request at a time. [victim]
void weir_distributor_request(
	struct weir_distributor *distributor, uint32_t victim, uint32_t bucket, uint32_t thief);
// Returns true if the owner has switched the bucket of the last request, and the victim has taken
// the last packet of the bucket. taken: total number of packets that the victim has taken from its
// ring. [victim]
bool weir_distributor_switched(
	const struct weir_distributor *distributor, uint32_t victim, uint64_t taken);

// Request a drain: when the owner has received all packets that are in the queue now, it reports
// the total number of packets that it has put into the target's ring. Only one request at a time.
// [main]
void weir_distributor_drain(struct weir_distributor *distributor, uint32_t target);
// Get the answer to the last request for a drain. *ret_end: total number of packets that the owner
// has put into the target's ring. Returns false while there is no answer. [target]
bool weir_distributor_drained(const struct weir_distributor *distributor, uint64_t *ret_end);

// Carry out requests of victims and main. Call between two bursts. [owner]
void weir_distributor_switch_slow(struct weir_distributor *distributor);

static inline void weir_distributor_switch(struct weir_distributor *distributor) {
	uint64_t requested = __atomic_load_n(&distributor->requested, __ATOMIC_RELAXED) |
			     __atomic_load_n(&distributor->draining, __ATOMIC_RELAXED);

	if (__builtin_expect(requested != 0, 0)) {
		weir_distributor_switch_slow(distributor);
	}
}

// Record that n packets, possibly 0, were received since the last weir_distributor_switch. The
// packets must be distributed before the next weir_distributor_switch. [owner]
static inline void weir_distributor_received(struct weir_distributor *distributor, uint16_t n) {
	struct weir_drain *drain = &distributor->drain;

	if (__builtin_expect(drain->begun, 0)) {
		drain->left = n == 0 || n > drain->left ? 0 : drain->left - n;
	}
}
