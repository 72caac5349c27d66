// SPDX-License-Identifier: BSD-3-Clause
//
// Buffers: pools of packet buffers, one per size and NUMA node, shared by devices.
//
// Threads: set-up only; DPDK allocates and frees buffers, from any thread.
#pragma once

#include "device_plan.h"

#define WEIR_NODES_MAX 8

struct rte_mempool;

struct weir_buffers {
	const struct weir_pool_plan *plan; // [plans], borrowed
	uint32_t plans;
	struct rte_mempool *pool[WEIR_POOLS_MAX][WEIR_NODES_MAX];
};

// Initialize the pools without allocating buffers. plan: [plans], each entry describes one pool;
// borrowed until weir_buffers_fini.
void weir_buffers_init(
	struct weir_buffers *buffers, const struct weir_pool_plan *plan, uint32_t plans);
void weir_buffers_fini(struct weir_buffers *buffers); // call after all devices are closed
// Gets the pool of buffers with this data room on a NUMA node, and creates the pool at the first
// call. socket: NUMA node; SOCKET_ID_ANY = the first node. Without huge pages, all devices use the
// pool of the first node. Returns 0, -ENOMEM, -EINVAL (no pool of the plan has this data room).
int weir_buffers_pool(
	struct weir_buffers *buffers, uint16_t room, int socket, struct rte_mempool **ret);

// Returns true if the buffers are contiguous in memory, as net_af_xdp expects.
bool weir_buffers_are_packed(struct rte_mempool *pool);
