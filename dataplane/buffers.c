// SPDX-License-Identifier: BSD-3-Clause
#include "buffers.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_lcore.h>
#include <rte_mbuf.h>
#include <rte_mempool.h>

#define CACHE 256

void weir_buffers_init(struct weir_buffers *buffers, const struct weir_plan *plan) {
	memset(buffers, 0, sizeof(*buffers));
	buffers->plan = plan;
}

void weir_buffers_fini(struct weir_buffers *buffers) {
	for (unsigned int i = 0; i < WEIR_POOLS_MAX; i++) {
		for (unsigned int node = 0; node < WEIR_NODES_MAX; node++) {
			rte_mempool_free(buffers->pool[i][node]);
			buffers->pool[i][node] = NULL;
		}
	}
}

// Which pool serves a device on this node. Virtual devices are on no node, or say that they are;
// ordinary pages are not told apart by node.
static unsigned int node_of(int socket) {
	if (socket < 0 || rte_eal_has_hugepages() == 0) {
		socket = rte_socket_id_by_idx(0);
	}
	return socket >= 0 && socket < WEIR_NODES_MAX ? (unsigned int)socket : 0;
}

int weir_buffers_pool(
	struct weir_buffers *buffers, uint16_t room, int socket, struct rte_mempool **ret) {
	unsigned int node = node_of(socket);
	char name[RTE_MEMPOOL_NAMESIZE];

	for (unsigned int i = 0; i < buffers->plan->pools; i++) {
		const struct weir_pool_plan *plan = &buffers->plan->pool[i];

		if (plan->room != room) {
			continue;
		}
		if (buffers->pool[i][node] == NULL) {
			snprintf(name, sizeof(name), "buffers_%u_%u", room, node);
			buffers->pool[i][node] = rte_pktmbuf_pool_create(
				name, plan->buffers, CACHE, 0, room, (int)node);
		}
		if (buffers->pool[i][node] == NULL) {
			return -ENOMEM;
		}
		*ret = buffers->pool[i][node];
		return 0;
	}
	return -EINVAL;
}
