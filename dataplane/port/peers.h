// SPDX-License-Identifier: BSD-3-Clause
//
// Peers: a ring from each worker to the next worker, for packets whose flow is not in the flow
// table of the first worker (offer.h).
//
// Threads: worker w puts packets into ring[(w + 1) % workers] and takes packets from ring[w]. All
// functions are for set-up.
#pragma once

#include <stdint.h>

#include "layout.h"

struct rte_ring;

#define WEIR_PEER_RING 512 // size of the ring to one worker, in packets

struct weir_peers {
	uint32_t workers;
	struct rte_ring
		*ring[WEIR_WORKERS_MAX]; // index: the worker that takes packets from the ring
};

// Create the rings of all workers. workers: number of workers, at least 2. socket: NUMA node of the
// memory. Returns 0, -EINVAL, -ENOMEM.
int weir_peers_create(uint32_t workers, int socket, struct weir_peers **ret);
void weir_peers_free(struct weir_peers *peers); // also frees the packets in rings; NULL is allowed
