// SPDX-License-Identifier: BSD-3-Clause
#include "lab_queues.h"

#include <errno.h>

#include <rte_ethdev.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#define OPS "lab_queues"

// --- packet buffers -------------------------------------------------------------------------

static int make_ring(struct rte_mempool *pool) {
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), "lab_%.*s", (int)RTE_RING_NAMESIZE - 8, pool->name);
	pool->pool_data =
		rte_ring_create(name, rte_align32pow2(pool->size + 1), pool->socket_id, 0);
	return pool->pool_data != NULL ? 0 : -rte_errno;
}

static void free_ring(struct rte_mempool *pool) {
	rte_ring_free(pool->pool_data);
}

static int put(struct rte_mempool *pool, void *const *objects, unsigned int n) {
	return rte_ring_mp_enqueue_bulk(pool->pool_data, objects, n, NULL) == n ? 0 : -ENOBUFS;
}

static int take(struct rte_mempool *pool, void **objects, unsigned int n) {
	return rte_ring_mc_dequeue_bulk(pool->pool_data, objects, n, NULL) == n ? 0 : -ENOBUFS;
}

static unsigned int count(const struct rte_mempool *pool) {
	return rte_ring_count(pool->pool_data);
}

static const struct rte_mempool_ops ops = {.name = OPS,
	.alloc = make_ring,
	.free = free_ring,
	.enqueue = put,
	.dequeue = take,
	.get_count = count};

RTE_MEMPOOL_REGISTER_OPS(ops)

struct rte_mempool *lab_queues_pool(const char *name, unsigned int buffers) {
	return rte_pktmbuf_pool_create_by_ops(
		name, buffers, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY, OPS);
}

// --- devices --------------------------------------------------------------------------------

static uint16_t receive(void *ring, struct rte_mbuf **pkts, uint16_t n) {
	return (uint16_t)rte_ring_sc_dequeue_burst(ring, (void **)pkts, n, NULL);
}

static uint16_t transmit(void *ring, struct rte_mbuf **pkts, uint16_t n) {
	return (uint16_t)rte_ring_sp_enqueue_burst(ring, (void **)pkts, n, NULL);
}

void lab_queues_poll(struct ring_device *device, uint16_t id) {
	struct rte_eth_fp_ops *polled = &rte_eth_fp_ops[id];

	polled->rx_pkt_burst = receive;
	polled->rxq.data = (void **)device->to;
	polled->tx_pkt_burst = transmit;
	polled->txq.data = (void **)device->from;
}
