// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mbuf_pool_ops.h>
#include <rte_mempool.h>

#define CACHE 256

void weir_buffers_init(
	struct weir_buffers *buffers, const struct weir_pool_plan *plan, uint32_t plans) {
	memset(buffers, 0, sizeof(*buffers));
	buffers->plan = plan;
	buffers->plans = plans;
}

void weir_buffers_fini(struct weir_buffers *buffers) {
	for (unsigned int i = 0; i < WEIR_POOLS_MAX; i++) {
		for (unsigned int node = 0; node < WEIR_NODES_MAX; node++) {
			rte_mempool_free(buffers->pool[i][node]);
			buffers->pool[i][node] = NULL;
		}
	}
}

// Returns the NUMA node of the pool for a device on this socket. This is the first node if the
// device has no node, or without huge pages, because DPDK assigns all ordinary pages to one node.
static unsigned int node_of(int socket) {
	if (socket < 0 || rte_eal_has_hugepages() == 0) {
		socket = rte_socket_id_by_idx(0);
	}
	return socket >= 0 && socket < WEIR_NODES_MAX ? (unsigned int)socket : 0;
}

// Creates a pool as rte_pktmbuf_pool_create does. If DPDK uses virtual addresses, as it always does
// without PCI devices, the buffers are packed and may cross pages. Without packing, each buffer
// would use a page of 4 KiB. net_af_xdp also expects packed buffers: otherwise it would register
// only some of the buffers with the kernel, and packets in the other buffers would be lost.
static struct rte_mempool *create_pool(
	const char *name, uint32_t buffers, uint16_t room, int node) {
	struct rte_pktmbuf_pool_private private = {.mbuf_data_room_size = room};
	unsigned int flags = rte_eal_iova_mode() == RTE_IOVA_VA ? RTE_MEMPOOL_F_NO_IOVA_CONTIG : 0;
	struct rte_mempool *pool = rte_mempool_create_empty(name, buffers,
		(unsigned int)sizeof(struct rte_mbuf) + room, CACHE, sizeof(private), node, flags);

	if (pool == NULL) {
		return NULL;
	}
	if (rte_mempool_set_ops_byname(pool, rte_mbuf_best_mempool_ops(), NULL) < 0) {
		goto free_pool;
	}
	rte_pktmbuf_pool_init(pool, &private);
	if (rte_mempool_populate_default(pool) < 0) {
		goto free_pool;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;

free_pool:
	rte_mempool_free(pool);
	return NULL;
}

static void find_end(struct rte_mempool *pool, void *context, void *object, unsigned int index) {
	uint8_t *end = (uint8_t *)object + pool->elt_size + pool->trailer_size;
	uint8_t **last = context;

	(void)index;
	if (end > *last) {
		*last = end;
	}
}

bool weir_buffers_are_packed(struct rte_mempool *pool) {
	const struct rte_mempool_memhdr *chunk = STAILQ_FIRST(&pool->mem_list);
	size_t object = pool->header_size + pool->elt_size + pool->trailer_size;
	uint8_t *end = NULL;

	rte_mempool_obj_iter(pool, find_end, &end);
	return pool->nb_mem_chunks == 1 &&
	       (size_t)(end - (uint8_t *)chunk->addr) <= object * pool->populated_size;
}

int weir_buffers_pool(
	struct weir_buffers *buffers, uint16_t room, int socket, struct rte_mempool **ret) {
	unsigned int node = node_of(socket);
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned int i = 0; i < buffers->plans; i++) {
		const struct weir_pool_plan *plan = &buffers->plan[i];

		if (plan->room != room) {
			continue;
		}
		if (buffers->pool[i][node] == NULL) {
			snprintf(name, sizeof(name), "buffers_%u_%u", room, node);
			buffers->pool[i][node] = create_pool(name, plan->buffers, room, (int)node);
		}
		if (buffers->pool[i][node] == NULL) {
			return -ENOMEM;
		}
		*ret = buffers->pool[i][node];
		return 0;
	}
	return -EINVAL;
}
