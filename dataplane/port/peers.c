// SPDX-License-Identifier: BSD-3-Clause
#include "peers.h"

#include <errno.h>
#include <stdio.h>

#include <rte_malloc.h>
#include <rte_mbuf.h>
#include <rte_ring.h>

int weir_peers_create(uint32_t workers, int socket, struct weir_peers **ret) {
	struct weir_peers *peers;
	char name[RTE_RING_NAMESIZE];

	if (workers < 2 || workers > WEIR_WORKERS_MAX) {
		return -EINVAL;
	}
	peers = rte_zmalloc_socket("peers", sizeof(*peers), RTE_CACHE_LINE_SIZE, socket);
	if (peers == NULL) {
		return -ENOMEM;
	}
	peers->workers = workers;
	for (uint32_t w = 0; w < workers; w++) {
		snprintf(name, sizeof(name), "peer_%u", w);
		peers->ring[w] = rte_ring_create(
			name, WEIR_PEER_RING, socket, RING_F_SP_ENQ | RING_F_SC_DEQ);
		if (peers->ring[w] == NULL) {
			weir_peers_free(peers);
			return -ENOMEM;
		}
	}
	*ret = peers;
	return 0;
}

void weir_peers_free(struct weir_peers *peers) {
	if (peers == NULL) {
		return;
	}
	for (uint32_t w = 0; w < peers->workers; w++) {
		struct rte_mbuf *m;

		while (peers->ring[w] != NULL &&
			rte_ring_dequeue(peers->ring[w], (void **)&m) == 0) {
			rte_pktmbuf_free(m);
		}
		rte_ring_free(peers->ring[w]);
	}
	rte_free(peers);
}
