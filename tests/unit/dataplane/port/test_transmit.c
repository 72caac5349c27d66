// SPDX-License-Identifier: BSD-3-Clause
#include "transmit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rte_ring.h>

#include "device_lab.h"
#include "test.h"

#define WORKERS 3

struct lab {
	struct weir_plan plan;
	struct weir_buffers buffers;
	struct ring_device ring;
	struct weir_device device;
	struct weir_transmit *transmit;
};

static struct lab *make(const char *name, uint16_t queues, uint32_t owner) {
	struct lab *lab = calloc(1, sizeof(*lab));
	char why[256];

	assert_non_null(lab);
	ring_device_make(name, queues, &lab->ring);
	device_lab_plan(lab->ring.name, queues, &lab->plan);
	weir_buffers_init(&lab->buffers, lab->plan.pool, lab->plan.pools);
	assert_int_equal(weir_device_open(&lab->plan.device[0], &lab->buffers, WORKERS,
				 &lab->device, why, sizeof(why)),
		0);
	assert_int_equal(weir_transmit_create(&lab->device, &owner, 1, WORKERS, &lab->transmit), 0);
	return lab;
}

static void unmake(struct lab *lab) {
	weir_transmit_free(lab->transmit);
	weir_device_close(&lab->device);
	ring_device_free(&lab->ring);
	weir_buffers_fini(&lab->buffers);
	assert_int_equal(device_lab_in_use(), 0);
	free(lab);
}

static uint16_t send(struct lab *lab, uint32_t worker, uint16_t n) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint16_t sent;

	assert_int_equal(rte_pktmbuf_alloc_bulk(device_lab_pool(), pkts, n), 0);
	for (uint16_t i = 0; i < n; i++) {
		rte_pktmbuf_append(pkts[i], 60);
	}
	sent = weir_path_send(&lab->transmit->path[0][worker], pkts, n);
	rte_pktmbuf_free_bulk(pkts + sent, (unsigned int)(n - sent));
	return sent;
}

static uint32_t on_wire(struct lab *lab, uint16_t queue) {
	return rte_ring_count(lab->ring.from[queue]);
}

TEST_GROUP(device_lab_eal);

TEST(a_worker_with_a_queue_sends_at_once) {
	struct lab *lab = make("tx_own", 3, 1);

	assert_int_equal(lab->transmit->outlets, 0);
	for (uint32_t w = 0; w < WORKERS; w++) {
		assert_int_equal(send(lab, w, (uint16_t)(10 + w)), 10 + w);
	}
	// Queue 0 belongs to worker 1.
	assert_int_equal(on_wire(lab, 0), 11);
	assert_int_equal(on_wire(lab, 1), 12);
	assert_int_equal(on_wire(lab, 2), 10);
	unmake(lab);
}

TEST(a_worker_without_a_queue_sends_through_its_owner) {
	struct lab *lab = make("tx_ring", 1, 2);

	assert_int_equal(lab->transmit->outlets, 2);
	assert_null(lab->transmit->path[0][2].ring);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(lab->transmit->outlet_owner[i], 2);
	}
	assert_int_equal(send(lab, 0, 40), 40);
	assert_int_equal(send(lab, 1, 50), 50);
	assert_int_equal(on_wire(lab, 0), 0);
	assert_int_equal(weir_outlet_drain(&lab->transmit->outlet[0]), 40);
	assert_int_equal(weir_outlet_drain(&lab->transmit->outlet[1]), 50);
	assert_int_equal(weir_outlet_drain(&lab->transmit->outlet[1]), 0);
	assert_int_equal(on_wire(lab, 0), 90);
	unmake(lab);
}

TEST(a_full_queue_fills_the_ring_and_the_sender_is_notified) {
	struct lab *lab = make("tx_full", 1, 0);
	uint32_t sent = 0, taken = 0;

	while (send(lab, 0, WEIR_BURST) == WEIR_BURST) {
	}
	assert_int_equal(on_wire(lab, 0), DEVICE_LAB_RING - 1);
	// The worker that owns the queue takes one burst out of the ring, but cannot send it. Until
	// it has sent this burst, it takes no more packets.
	for (unsigned int i = 0; i < 40; i++) {
		sent += send(lab, 1, WEIR_BURST);
		assert_int_equal(weir_outlet_drain(&lab->transmit->outlet[0]), 0);
	}
	assert_int_equal(sent, WEIR_TX_RING - 1 + WEIR_BURST);
	assert_false(weir_path_has_room(&lab->transmit->path[0][1], 1));
	// For a worker that sends to the device itself, the room in the device is unknown, and the
	// result is always true.
	assert_true(weir_path_has_room(&lab->transmit->path[0][0], 1));
	assert_int_equal(weir_path_sent(&lab->transmit->path[0][1]), 0);
	// When the device has room again, all packets are sent, each once.
	for (unsigned int i = 0; i < DEVICE_LAB_RING - 1; i++) {
		rte_pktmbuf_free(ring_device_take(&lab->ring, 0));
	}
	for (unsigned int i = 0; i < 40; i++) {
		taken += weir_outlet_drain(&lab->transmit->outlet[0]);
	}
	assert_int_equal(taken, sent);
	assert_int_equal(weir_path_sent(&lab->transmit->path[0][1]), sent);
	assert_true(weir_path_has_room(&lab->transmit->path[0][1], WEIR_TX_RING - 1));
	assert_int_equal(on_wire(lab, 0), sent);
	unmake(lab);
}

TEST(waiting_packets_are_freed_at_the_end) {
	struct lab *lab = make("tx_end", 1, 0);

	while (send(lab, 0, WEIR_BURST) == WEIR_BURST) {
	}
	assert_int_equal(send(lab, 1, WEIR_BURST), WEIR_BURST);
	assert_int_equal(weir_outlet_drain(&lab->transmit->outlet[0]), 0);
	assert_int_equal(send(lab, 1, WEIR_BURST), WEIR_BURST);
	unmake(lab); // checks for leaks
}

TEST(long_packets_are_refused_and_segments_are_joined) {
	struct weir_path path = {.frame_max = 1522, .multi_segment = false};
	struct rte_mbuf *m = rte_pktmbuf_alloc(device_lab_pool());
	struct rte_mbuf *tail = rte_pktmbuf_alloc(device_lab_pool());

	rte_pktmbuf_append(m, 1522);
	assert_true(weir_path_admits(&path, m));
	rte_pktmbuf_append(m, 1);
	assert_false(weir_path_admits(&path, m));
	rte_pktmbuf_trim(m, 1023);
	memset(rte_pktmbuf_append(tail, 500), 0x5a, 500);
	assert_int_equal(rte_pktmbuf_chain(m, tail), 0);
	path.multi_segment = true;
	assert_true(weir_path_admits(&path, m));
	assert_int_equal(m->nb_segs, 2);
	path.multi_segment = false;
	assert_true(weir_path_admits(&path, m));
	assert_int_equal(m->nb_segs, 1);
	assert_int_equal(m->data_len, 1000);
	assert_int_equal(*rte_pktmbuf_mtod_offset(m, uint8_t *, 999), 0x5a);
	rte_pktmbuf_free(m);
	assert_int_equal(device_lab_in_use(), 0);
}
