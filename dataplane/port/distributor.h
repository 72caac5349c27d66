// SPDX-License-Identifier: BSD-3-Clause
//
// Distributor: spreads the packets of a receive queue over the workers: all packets of a port whose
// device does not spread flows or, with RSS, those whose bucket another worker owns.
//
// One worker, the queue's owner, receives. It finds the bucket of each packet's flow
// (weir_pipeline_distribute), and passes the packet to the bucket's worker by a single-producer,
// single-consumer ring.
// One producer and one ring per target: packets of a flow stay in order and on one worker.
//
// A bucket can be switched from its worker, the victim, to another one, the thief (moves.h). The
// victim requests it; the owner switches between two bursts, and from then on puts packets of the
// bucket into the thief's ring. Its answer is the number of packets that it has put into the
// victim's ring so far: when the victim has taken this many, none of the bucket is left there.
//
// Threads: the owner calls what is marked [owner] and puts into rings; worker w takes from ring[w].
// The rest is set-up.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "layout.h"

struct rte_ring;

// One per port, or one per queue of a device that spreads flows.
#define WEIR_DISTRIBUTORS_MAX (WEIR_PORTS_MAX * 64)
#define WEIR_DISTRIBUTOR_BUCKETS 1024 // even for 64 workers, shares differ by a sixteenth at most
#define WEIR_DISTRIBUTOR_RING 1024 // packets that wait for one worker
// Packets: more than a device stores for a queue, in its descriptors and before them.
#define WEIR_DISTRIBUTOR_DRAIN 16384u

// A victim's request for a switch.
struct weir_switch {
	uint32_t bucket; // [victim], while its bit in `asked` is clear
	uint32_t thief; // as bucket
	uint64_t end; // [owner], while the bit is set: packets ever put into the victim's ring
} __attribute__((aligned(64)));

// A request to report the packets that a queue has received so far (shift.h).
struct weir_drain {
	uint32_t target; // [main], while `draining` is clear
	bool begun; // [owner]: it has seen the request before it polled the queue
	uint64_t left; // [owner]: packets to receive until the queue counts as empty
	uint64_t end; // [owner], while `draining` is set: packets ever put into the target's ring
} __attribute__((aligned(64)));

struct weir_distributor {
	uint32_t workers;
	uint32_t owner;
	uint32_t number; // among all distributors
	struct rte_ring *ring[WEIR_WORKERS_MAX]; // by target; NULL for the owner
	uint8_t worker[WEIR_DISTRIBUTOR_BUCKETS]; // [owner]
	uint64_t put[WEIR_WORKERS_MAX]; // [owner] packets ever put into each ring
	uint64_t pressed_ns; // [owner] of moves.c
	uint64_t looked_ns[WEIR_WORKERS_MAX]; // [owner] of moves.c
	bool crowded[WEIR_WORKERS_MAX]; // [owner] ring[] was three quarters full at its last burst
	uint64_t asked __attribute__((aligned(64))); // a bit each: [victim] sets, [owner] clears
	uint64_t draining; // 0 or 1: [main] sets, [owner] clears
	uint64_t reserved[6];
	struct weir_switch switches[WEIR_WORKERS_MAX]; // by victim
	struct weir_drain drain;
};
_Static_assert(WEIR_WORKERS_MAX <= 64, "a bit each");

// number: below WEIR_DISTRIBUTORS_MAX. Returns 0, -EINVAL, -ENOMEM (too little DPDK memory).
int weir_distributor_create(uint32_t number, uint32_t workers, uint32_t owner, int socket,
	struct weir_distributor **ret);
// Also frees the packets in rings; NULL is allowed
void weir_distributor_free(struct weir_distributor *distributor);

// The worker that owns a bucket before any is moved.
static inline uint32_t weir_distributor_first_worker(uint32_t bucket, uint32_t workers) {
	return bucket % workers;
}

// The worker of a bucket. [owner]
static inline uint32_t weir_distributor_worker(
	const struct weir_distributor *distributor, uint32_t bucket) {
	return distributor->worker[bucket];
}

// A packet carries its bucket from the distributor to its worker. [owner], then [worker]
static inline void weir_distributor_mark(struct rte_mbuf *m, uint32_t bucket) {
	m->hash.usr = bucket;
}

static inline uint32_t weir_distributor_bucket_of(const struct rte_mbuf *m) {
	return m->hash.usr;
}

// --- switches -----------------------------------------------------------------------------------

// Request the switch of a bucket of the victim to the thief. One at a time per victim.
// [victim]
void weir_distributor_request(
	struct weir_distributor *distributor, uint32_t victim, uint32_t bucket, uint32_t thief);
// True if the owner has switched the bucket of the last request, and the victim has taken the last
// packet of the bucket. taken: packets that the victim ever took from its ring. [victim]
bool weir_distributor_switched(
	const struct weir_distributor *distributor, uint32_t victim, uint64_t taken);

// Request the number of packets put into the target's ring once all packets that are in the queue
// now have been received. One request at a time. [main]
void weir_distributor_drain(struct weir_distributor *distributor, uint32_t target);
// The answer to the last request; false while there is none. [target]
bool weir_distributor_drained(const struct weir_distributor *distributor, uint64_t *ret_end);

// Carry out requests of victims and main. Between two bursts. [owner]
void weir_distributor_switch_slow(struct weir_distributor *distributor);

static inline void weir_distributor_switch(struct weir_distributor *distributor) {
	uint64_t asked = __atomic_load_n(&distributor->asked, __ATOMIC_RELAXED) |
			 __atomic_load_n(&distributor->draining, __ATOMIC_RELAXED);

	if (__builtin_expect(asked != 0, 0)) {
		weir_distributor_switch_slow(distributor);
	}
}

// Note how many packets were received since the last weir_distributor_switch, possibly 0. They are
// distributed before the next one. [owner]
static inline void weir_distributor_received(struct weir_distributor *distributor, uint16_t n) {
	struct weir_drain *drain = &distributor->drain;

	if (__builtin_expect(drain->begun, 0)) {
		drain->left = n == 0 || n > drain->left ? 0 : drain->left - n;
	}
}
