// SPDX-License-Identifier: BSD-3-Clause
//
// NIC: an emulated PCI device with RSS, for tests of the complete weir-dataplane program on a
// machine without such a device. It is loaded with LD_PRELOAD and replaces the DPDK functions that
// query, configure and start the device NIC_NAME. All other DPDK functions run unchanged, on a
// net_ring device whose other end is in wire.c. So the program and its workers run as with any PCI
// device.
//
// A DPDK driver would be loaded with `--eal '-d FILE'`, but distributions do not install the
// headers that it needs.
//
// Environment: WEIR_NIC_INTERFACE  the interface that frames are received from and sent to
//              WEIR_NIC_STATE      a file that contains struct nic_state
//
// Threads: the main thread calls these functions. It calls the function that changes the
// redirection table while workers run, and the other functions only while no worker runs. Workers
// call the send functions.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eth_ring.h>
#include <rte_ethdev.h>
#include <rte_mbuf_dyn.h>
#include <rte_ring.h>

#include "netdev.h"
#include "nic_model.h"
#include "nic_model_wraps.h"
#include "nic_state.h"
#include "wire.h"

#define NIC_NAME "0000:99:00.0"
#define RING_NAME "weirnic"
#define RING_DEVICE "net_ring_" RING_NAME
#define DESCRIPTORS 1024
#define REAL(function) ((__typeof__(&(function)))real(#function))
#define EXPORTED __attribute__((visibility("default")))

static struct nic {
	bool made;
	uint16_t device;
	struct nic_model model;
	struct nic_state *state;
	struct rte_ring *rx[NIC_QUEUES_MAX], *tx[NIC_QUEUES_MAX];
	struct rte_mempool *pool;
	uint16_t queues;
	uint16_t descriptors; // descriptors of each transmit queue
	int place_offset; // mbuf dynamic field: position of the packet among all sent packets
	uint64_t places;
	struct wire *wire;
} nic;

static void *real(const char *name) {
	void *function = dlsym(RTLD_NEXT, name);

	if (function == NULL) {
		fprintf(stderr, "NIC: DPDK has no %s\n", name);
		abort();
	}
	return function;
}

static bool is_nic(uint16_t device) {
	return nic.made && device == nic.device;
}

// --- the device -----------------------------------------------------------------------------

static int map_state(void) {
	const char *path = getenv("WEIR_NIC_STATE");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *state;

	if (fd < 0) {
		return -ENOENT;
	}
	state = mmap(NULL, sizeof(*nic.state), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (state == MAP_FAILED) {
		return -errno;
	}
	nic.state = state;
	return 0;
}

static struct rte_ring *make_ring(const char *way, uint32_t queue) {
	char name[RTE_RING_NAMESIZE];

	snprintf(name, sizeof(name), RING_NAME "_%s%u", way, queue);
	return rte_ring_create(
		name, DESCRIPTORS, SOCKET_ID_ANY, RING_F_SP_ENQ | RING_F_SC_DEQ | RING_F_EXACT_SZ);
}

static int make(void) {
	static const struct rte_mbuf_dynfield place = {
		.name = "weir_nic_place", .size = sizeof(uint64_t), .align = sizeof(uint64_t)};
	int r = map_state();

	nic.place_offset = rte_mbuf_dynfield_register(&place);
	if (r == 0 && nic.place_offset < 0) {
		r = -ENOMEM;
	}
	for (uint32_t q = 0; q < NIC_QUEUES_MAX && r == 0; q++) {
		nic.rx[q] = make_ring("rx", q);
		nic.tx[q] = make_ring("tx", q);
		r = nic.rx[q] != NULL && nic.tx[q] != NULL ? 0 : -ENOMEM;
	}
	if (r < 0) {
		return r;
	}
	r = rte_eth_from_rings(
		RING_NAME, nic.rx, NIC_QUEUES_MAX, nic.tx, NIC_QUEUES_MAX, SOCKET_ID_ANY);
	if (r < 0) {
		return -EIO;
	}
	nic.device = (uint16_t)r;
	nic_model_add(&nic.model, RING_DEVICE, NIC_ENTRIES, 1);
	nic.made = true;
	return 0;
}

// --- functions that replace DPDK functions ----------------------------------------------------

EXPORTED int rte_eth_dev_get_port_by_name(const char *name, uint16_t *ret) {
	if (strcmp(name, NIC_NAME) != 0) {
		return REAL(rte_eth_dev_get_port_by_name)(name, ret);
	}
	if (!nic.made && make() < 0) {
		return -ENODEV;
	}
	*ret = nic.device;
	return 0;
}

EXPORTED int rte_eth_macaddr_get(uint16_t device, struct rte_ether_addr *ret) {
	return is_nic(device) ? weir_netdev_mac(getenv("WEIR_NIC_INTERFACE"), ret->addr_bytes)
			      : REAL(rte_eth_macaddr_get)(device, ret);
}

// Runs in the worker that sends the packets. Uses as much CPU time as a driver: tx_ns for each
// packet.
static uint16_t on_transmit(
	uint16_t device, uint16_t queue, struct rte_mbuf **pkts, uint16_t n, void *context) {
	uint64_t ns = __atomic_load_n(&nic.state->tx_ns, __ATOMIC_RELAXED);
	uint64_t end = rte_rdtsc() + n * ns * (rte_get_tsc_hz() / 1000000) / 1000;
	uint64_t place = __atomic_fetch_add(&nic.places, n, __ATOMIC_SEQ_CST);

	(void)device;
	(void)queue;
	(void)context;
	for (uint16_t i = 0; i < n; i++) {
		*RTE_MBUF_DYNFIELD(pkts[i], nic.place_offset, uint64_t *) = place + i;
	}
	while (rte_rdtsc() < end) {
	}
	return n;
}

EXPORTED int rte_eth_tx_queue_setup(uint16_t device, uint16_t queue, uint16_t descriptors,
	unsigned int socket, const struct rte_eth_txconf *conf) {
	int r = REAL(rte_eth_tx_queue_setup)(device, queue, descriptors, socket, conf);

	if (r == 0 && is_nic(device) &&
		rte_eth_add_tx_callback(device, queue, on_transmit, NULL) == NULL) {
		return -ENOMEM;
	}
	if (is_nic(device)) {
		nic.descriptors = descriptors;
	}
	return r;
}

EXPORTED int rte_eth_rx_queue_setup(uint16_t device, uint16_t queue, uint16_t descriptors,
	unsigned int socket, const struct rte_eth_rxconf *conf, struct rte_mempool *pool) {
	if (is_nic(device)) {
		nic.pool = pool;
		nic.queues = (uint16_t)(queue + 1); // queues are set up in ascending order
	}
	return REAL(rte_eth_rx_queue_setup)(device, queue, descriptors, socket, conf, pool);
}

// Status of a transmit descriptor: the newest descriptors hold the packets that the wire has not
// sent yet. Called by the worker of the queue.
static int descriptor_status(void *driver_queue, uint16_t offset) {
	void *const *queues = rte_eth_fp_ops[nic.device].txq.data;
	uint16_t queue = 0;
	uint32_t waiting;

	while (queues[queue] != driver_queue) {
		queue++;
	}
	if (offset >= nic.descriptors) {
		return -EINVAL;
	}
	waiting = nic.tx[queue]->prod.tail - wire_departed(nic.wire, queue);
	return nic.descriptors - 1u - offset < waiting ? RTE_ETH_TX_DESC_FULL
						       : RTE_ETH_TX_DESC_DONE;
}

// Sets the initial redirection table, spread evenly over the queues.
static void spread_evenly(void) {
	for (uint32_t e = 0; e < NIC_ENTRIES; e++) {
		nic.model.queue[e] = (uint16_t)(e % nic.queues);
	}
}

EXPORTED int rte_eth_dev_start(uint16_t device) {
	struct wire_params params = {.interface = getenv("WEIR_NIC_INTERFACE"),
		.model = &nic.model,
		.state = nic.state,
		.rx = nic.rx,
		.tx = nic.tx,
		.place_offset = nic.place_offset,
		.queues = nic.queues,
		.pool = nic.pool};
	int r = REAL(rte_eth_dev_start)(device);

	if (r < 0 || !is_nic(device)) {
		return r;
	}
	rte_eth_fp_ops[device].tx_descriptor_status = descriptor_status;
	spread_evenly();
	return wire_start(&params, &nic.wire);
}

EXPORTED int rte_eth_dev_stop(uint16_t device) {
	if (is_nic(device)) {
		wire_stop(nic.wire);
		nic.wire = NULL;
	}
	return REAL(rte_eth_dev_stop)(device);
}

EXPORTED int rte_eth_dev_info_get(uint16_t device, struct rte_eth_dev_info *ret) {
	return __wrap_rte_eth_dev_info_get(device, ret);
}

EXPORTED int rte_eth_dev_configure(
	uint16_t device, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf) {
	return __wrap_rte_eth_dev_configure(device, rx, tx, conf);
}

EXPORTED int rte_eth_dev_rss_hash_conf_get(uint16_t device, struct rte_eth_rss_conf *conf) {
	return __wrap_rte_eth_dev_rss_hash_conf_get(device, conf);
}

EXPORTED int rte_eth_dev_rss_reta_query(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	return __wrap_rte_eth_dev_rss_reta_query(device, table, entries);
}

EXPORTED int rte_eth_dev_rss_reta_update(
	uint16_t device, struct rte_eth_rss_reta_entry64 *table, uint16_t entries) {
	uint64_t refuses = __atomic_load_n(&nic.state->refuses, __ATOMIC_RELAXED);
	uint64_t update_us = __atomic_load_n(&nic.state->update_us, __ATOMIC_RELAXED);

	__atomic_store_n(&nic.model.update_result, refuses != 0 ? -EIO : 0, __ATOMIC_RELAXED);
	__atomic_store_n(&nic.model.update_us, (unsigned int)update_us, __ATOMIC_RELAXED);
	return __wrap_rte_eth_dev_rss_reta_update(device, table, entries);
}

// --- functions that the model calls ---------------------------------------------------------

int __real_rte_eth_dev_info_get(uint16_t device, struct rte_eth_dev_info *ret) {
	return REAL(rte_eth_dev_info_get)(device, ret);
}

int __real_rte_eth_dev_configure(
	uint16_t device, uint16_t rx, uint16_t tx, const struct rte_eth_conf *conf) {
	return REAL(rte_eth_dev_configure)(device, rx, tx, conf);
}
