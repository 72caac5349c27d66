// SPDX-License-Identifier: BSD-3-Clause
#include "device_lab.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_eth_ring.h>
#include <rte_mempool.h>
#include <rte_ring.h>

#include "lab_queues.h"
#include "test.h"

#define POOL "device-lab"
#define BUFFERS 16383

int device_lab_eal(void **state) {
	char *argv[] = {"test", "--no-huge", "--no-pci", "--no-shconf", "--no-telemetry",
		"--iova-mode=va", "-m512", "--log-level=*:critical", "--lcores=0@0,1@0,2@0,3@0",
		"--main-lcore=0", NULL};

	(void)state;
	if (geteuid() == 0 && unshare(CLONE_NEWNET) < 0) {
		return -1;
	}
	return rte_eal_init(10, argv) < 0 ? -1 : 0;
}

void device_lab_need_root(void) {
	if (geteuid() != 0) {
		skip();
	}
}

struct rte_mempool *device_lab_pool(void) {
	struct rte_mempool *pool = rte_mempool_lookup(POOL);

	if (pool == NULL) {
		pool = lab_queues_pool(POOL, BUFFERS);
	}
	assert_non_null(pool);
	return pool;
}

uint32_t device_lab_in_use(void) {
	return rte_mempool_in_use_count(device_lab_pool());
}

static struct rte_ring *make_ring(const char *name, const char *way, uint16_t queue) {
	char text[RTE_RING_NAMESIZE];
	struct rte_ring *ring;

	snprintf(text, sizeof(text), "%s_%s_%u", name, way, queue);
	ring = rte_ring_create(text, DEVICE_LAB_RING, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ);
	assert_non_null(ring);
	return ring;
}

void ring_device_make(const char *name, uint16_t queues, struct ring_device *ret) {
	memset(ret, 0, sizeof(*ret));
	ret->queues = queues;
	for (uint16_t q = 0; q < queues; q++) {
		ret->to[q] = make_ring(name, "to", q);
		ret->from[q] = make_ring(name, "from", q);
	}
	assert_true(
		rte_eth_from_rings(name, ret->to, queues, ret->from, queues, SOCKET_ID_ANY) >= 0);
	snprintf(ret->name, sizeof(ret->name), "net_ring_%s", name);
}

void ring_device_free(struct ring_device *device) {
	for (uint16_t q = 0; q < device->queues; q++) {
		struct rte_mbuf *m;

		while (rte_ring_dequeue(device->to[q], (void **)&m) == 0 ||
			rte_ring_dequeue(device->from[q], (void **)&m) == 0) {
			rte_pktmbuf_free(m);
		}
		rte_ring_free(device->to[q]);
		rte_ring_free(device->from[q]);
	}
}

bool ring_device_feed(
	struct ring_device *device, uint16_t queue, const uint8_t *bytes, uint32_t n) {
	struct rte_mbuf *m = rte_pktmbuf_alloc(device_lab_pool());

	assert_non_null(m);
	memcpy(rte_pktmbuf_append(m, (uint16_t)n), bytes, n);
	if (rte_ring_enqueue(device->to[queue], m) < 0) {
		rte_pktmbuf_free(m);
		return false;
	}
	return true;
}

struct rte_mbuf *ring_device_take(struct ring_device *device, uint16_t queue) {
	struct rte_mbuf *m;

	return rte_ring_dequeue(device->from[queue], (void **)&m) == 0 ? m : NULL;
}

void device_lab_plan(const char *device, uint16_t queues, struct weir_plan *ret) {
	memset(ret, 0, sizeof(*ret));
	assert_int_equal(weir_devargs_parse(device, &ret->device[0].devargs), 0);
	ret->devices = 1;
	ret->workers = 1;
	ret->device[0].queues = queues;
	ret->device[0].descriptors = 512;
	ret->device[0].mtu = 1500;
	ret->device[0].room = RTE_MBUF_DEFAULT_BUF_SIZE;
	(void)weir_devargs_get(&ret->device[0].devargs, "iface", ret->device[0].interface,
		sizeof(ret->device[0].interface));
	ret->pools = 1;
	ret->pool[0].room = RTE_MBUF_DEFAULT_BUF_SIZE;
	ret->pool[0].buffers = 8191;
}
