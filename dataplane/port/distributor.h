// SPDX-License-Identifier: BSD-3-Clause
//
// Distributor: spreads the packets of a port that cannot do it itself (RSS) over the workers.
//
// One worker, the port's owner, receives. It takes the hash of each packet's flow, finds the
// bucket, and passes the packet to the bucket's worker by a single-producer, single-consumer ring.
// One producer and one ring per target: packets of a flow stay in order and on one worker.
//
// Threads: the owner calls weir_distributor_worker and puts into rings; worker w takes from
// ring[w]. The rest is set-up.
#pragma once

#include <stdint.h>

#include "hash.h"
#include "layout.h"

struct rte_ring;

#define WEIR_DISTRIBUTOR_BUCKETS 1024 // even for 64 workers, shares differ by a sixteenth at most
#define WEIR_DISTRIBUTOR_RING 1024 // packets that wait for one worker

struct weir_distributor {
	uint32_t workers;
	uint32_t owner;
	struct rte_ring *ring[WEIR_WORKERS_MAX]; // by target; NULL for the owner
	uint8_t worker[WEIR_DISTRIBUTOR_BUCKETS];
};

// port: for the names of rings. Returns 0, -EINVAL, -ENOMEM (too little DPDK memory).
int weir_distributor_create(
	uint32_t port, uint32_t workers, uint32_t owner, int socket, struct weir_distributor **ret);
void weir_distributor_free(struct weir_distributor *distributor); // and what is in rings; NULL ok

// The worker of a flow. The bucket comes from a second mix of the hash: flow table and selection
// index by its bits, and each worker must still see all values of these.
static inline uint32_t weir_distributor_worker(
	const struct weir_distributor *distributor, uint64_t hash) {
	uint64_t mixed = weir_hash_mix(hash ^ 0x9e3779b97f4a7c15ull, 0xd6e8feb86659fd93ull);

	return distributor->worker[mixed % WEIR_DISTRIBUTOR_BUCKETS];
}
