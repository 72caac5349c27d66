// SPDX-License-Identifier: BSD-3-Clause
#include "transmit.h"

#include <errno.h>
#include <stdio.h>

#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_ring.h>

#include "departure.h"
#include "ring_fill.h"

// Maximum number of attempts to send a burst. If the NIC sends at line rate, a full queue has room
// again after fewer attempts. The number is small, because a stuck device must not delay other
// devices.
#define TRIES 8

static uint16_t send_now(uint16_t device, uint16_t queue, struct rte_mbuf **pkts, uint16_t n) {
	uint16_t sent = rte_eth_tx_burst(device, queue, pkts, n);

	for (unsigned int try = 1; unlikely(sent < n) && try < TRIES; try++) {
		rte_pause();
		sent = (uint16_t)(sent + rte_eth_tx_burst(
						 device, queue, pkts + sent, (uint16_t)(n - sent)));
	}
	return sent;
}

uint16_t weir_path_send(struct weir_path *path, struct rte_mbuf **pkts, uint16_t n) {
	uint16_t taken = path->ring != NULL ? (uint16_t)rte_ring_sp_enqueue_burst(
						      path->ring, (void **)pkts, n, NULL)
					    : send_now(path->device, path->queue, pkts, n);

	path->put += taken;
	return taken;
}

bool weir_path_has_room(const struct weir_path *path, uint32_t n) {
	return path->ring == NULL || weir_ring_fill(path->ring) + n <= path->ring->capacity;
}

uint16_t weir_outlet_drain(struct weir_outlet *outlet) {
	uint16_t sent;

	if (unlikely(weir_outlet_is_requested(outlet))) {
		weir_outlet_answer(outlet);
	}
	if (outlet->waiting == 0) {
		outlet->first = 0;
		outlet->waiting = (uint16_t)rte_ring_sc_dequeue_burst(
			outlet->ring, (void **)outlet->pkts, WEIR_BURST, NULL);
		if (outlet->waiting == 0) {
			return 0;
		}
	}
	sent = rte_eth_tx_burst(outlet->own->device, outlet->own->queue,
		outlet->pkts + outlet->first, outlet->waiting);
	if (unlikely(sent == 0)) {
		if (outlet->in_vain < WEIR_STUCK_TURNS) {
			__atomic_store_n(&outlet->in_vain, outlet->in_vain + 1, __ATOMIC_RELAXED);
		}
		return 0;
	}
	if (unlikely(outlet->in_vain != 0)) {
		__atomic_store_n(&outlet->in_vain, 0, __ATOMIC_RELAXED);
	}
	outlet->first = (uint16_t)(outlet->first + sent);
	outlet->waiting = (uint16_t)(outlet->waiting - sent);
	outlet->own->put += sent;
	__atomic_store_n(&outlet->sent, outlet->sent + sent, __ATOMIC_RELEASE);
	return sent;
}

// --- set-up -------------------------------------------------------------------------------

static int make_path(struct weir_transmit *transmit, const struct weir_device *device, uint32_t d,
	uint32_t owner, uint32_t worker) {
	uint32_t workers = transmit->workers;
	uint32_t place =
		(worker + workers - owner) % workers; // index among the users of the device
	uint32_t sender = (owner + place % device->tx_queues) % workers;
	struct weir_path *path = &transmit->path[d][worker];
	struct weir_outlet *outlet;
	char name[RTE_RING_NAMESIZE];

	path->device = device->id;
	path->queue = (uint16_t)(place % device->tx_queues);
	path->descriptors = device->tx_descriptors;
	path->multi_segment = device->multi_segment;
	path->frame_max = device->frame_max;
	if (place < device->tx_queues) {
		return 0;
	}
	snprintf(name, sizeof(name), "transmit_%u_%u", d, worker);
	path->ring = rte_ring_create(name, WEIR_TX_RING, rte_eth_dev_socket_id(device->id),
		RING_F_SP_ENQ | RING_F_SC_DEQ);
	if (path->ring == NULL) {
		return -ENOMEM;
	}
	outlet = &transmit->outlet[transmit->outlets];
	outlet->ring = path->ring;
	outlet->own = &transmit->path[d][sender];
	path->outlet = outlet;
	transmit->outlet_owner[transmit->outlets] = (uint8_t)sender;
	transmit->outlets++;
	return 0;
}

int weir_transmit_create(const struct weir_device *devices, const uint32_t *owner, uint32_t n,
	uint32_t workers, struct weir_transmit **ret) {
	struct weir_transmit *transmit =
		rte_zmalloc("transmit", sizeof(*transmit), RTE_CACHE_LINE_SIZE);
	int r;

	if (transmit == NULL) {
		return -ENOMEM;
	}
	transmit->devices = n;
	transmit->workers = workers;
	transmit->outlet = rte_zmalloc(
		"outlets", n * workers * sizeof(*transmit->outlet), RTE_CACHE_LINE_SIZE);
	transmit->outlet_owner = rte_zmalloc("outlets", n * workers, RTE_CACHE_LINE_SIZE);
	r = transmit->outlet == NULL || transmit->outlet_owner == NULL ? -ENOMEM : 0;
	for (uint32_t d = 0; d < n && r == 0; d++) {
		for (uint32_t w = 0; w < workers && r == 0; w++) {
			r = make_path(transmit, &devices[d], d, owner[d], w);
		}
	}
	if (r < 0) {
		weir_transmit_free(transmit);
		return r;
	}
	*ret = transmit;
	return 0;
}

void weir_transmit_free(struct weir_transmit *transmit) {
	if (transmit == NULL) {
		return;
	}
	for (uint32_t i = 0; i < transmit->outlets; i++) {
		struct weir_outlet *outlet = &transmit->outlet[i];
		struct rte_mbuf *m;

		rte_pktmbuf_free_bulk(outlet->pkts + outlet->first, outlet->waiting);
		while (rte_ring_dequeue(outlet->ring, (void **)&m) == 0) {
			rte_pktmbuf_free(m);
		}
	}
	for (uint32_t d = 0; d < transmit->devices; d++) {
		for (uint32_t w = 0; w < transmit->workers; w++) {
			rte_ring_free(transmit->path[d][w].ring);
		}
	}
	rte_free(transmit->outlet_owner);
	rte_free(transmit->outlet);
	rte_free(transmit);
}
