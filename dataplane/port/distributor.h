// SPDX-License-Identifier: BSD-3-Clause
//
// Distributor: spreads the packets of a port that cannot do it itself (RSS) over the workers.
//
// One worker, the port's owner, receives. It finds the bucket of each packet's flow
// (weir_pipeline_distribute), and passes the packet to the bucket's worker by a single-producer,
// single-consumer ring.
// One producer and one ring per target: packets of a flow stay in order and on one worker.
//
// Threads: the owner calls weir_distributor_worker and puts into rings; worker w takes from
// ring[w]. The rest is set-up.
#pragma once

#include <stdint.h>

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

// The worker that has a bucket before any is moved.
static inline uint32_t weir_distributor_first_worker(uint32_t bucket, uint32_t workers) {
	return bucket % workers;
}

// The worker of a bucket.
static inline uint32_t weir_distributor_worker(
	const struct weir_distributor *distributor, uint32_t bucket) {
	return distributor->worker[bucket];
}
