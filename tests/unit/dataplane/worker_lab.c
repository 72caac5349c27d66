// SPDX-License-Identifier: BSD-3-Clause
#include "worker_lab.h"

#include <stdio.h>
#include <stdlib.h>

#include <rte_ring.h>

#include "peers.h"
#include "test.h"

void worker_lab_add_source(struct worker_lab *w, enum weir_source_kind kind, uint8_t device) {
	struct weir_source source = {.kind = (uint8_t)kind,
		.port = LAB_IN_PORT,
		.device = w->device[device].id,
		.distributor = w->distributor};

	if (kind == WEIR_SOURCE_HANDED) {
		source.ring = w->distributor->ring[SELF];
	}
	assert_int_equal(weir_worker_add_source(w->worker, &source), 0);
}

struct worker_lab *worker_lab_make(unsigned int number, enum weir_config_idle idle) {
	const uint32_t owner[DEVICES] = {SELF, SELF, SELF, SELF};
	struct worker_lab *w = calloc(1, sizeof(*w));
	struct weir_worker_params params;
	char name[32], why[256];

	assert_non_null(w);
	w->lab = lab_make();
	for (uint8_t d = 0; d < DEVICES; d++) {
		snprintf(name, sizeof(name), "wk%u_%u", number, d);
		ring_device_make(name, 1, &w->ring[d]);
		device_lab_plan(w->ring[d].name, 1, &w->plan);
		if (d == 0) {
			weir_buffers_init(&w->buffers, w->plan.pool, w->plan.pools);
		}
		assert_int_equal(weir_device_open(&w->plan.device[0], &w->buffers, WORKERS,
					 &w->device[d], why, sizeof(why)),
			0);
		if (d < LAB_PORTS) {
			w->port[d] = (struct weir_port){.wire = d, .exception = WEIR_NO_DEVICE};
		}
	}
	w->port[LAB_IN_PORT].exception = EXCEPTION;
	assert_int_equal(weir_transmit_create(w->device, owner, DEVICES, WORKERS, &w->transmit), 0);
	params = (struct weir_worker_params){.index = SELF,
		.segment = w->lab->segment,
		.pipeline = w->lab->pipeline,
		.transmit = w->transmit,
		.ports = w->port,
		.ports_count = LAB_PORTS,
		.idle = idle,
		.socket = SOCKET_ID_ANY};
	assert_int_equal(weir_worker_create(&params, &w->worker), 0);
	return w;
}

void worker_lab_check_sums(const struct weir_worker_counters *c) {
	uint64_t drops = 0;

	for (unsigned int i = 0; i < WEIR_DROP_REASON_SLOTS; i++) {
		drops += c->drops[i];
	}
	assert_int_equal(drops, c->dropped);
	assert_int_equal(c->rx_packets + c->fragments_made,
		c->forwarded + c->replied + c->to_kernel + c->dropped + c->handed_over);
}

void worker_lab_free(struct worker_lab *w) {
	weir_worker_free(w->worker);
	weir_distributor_free(w->distributor);
	weir_transmit_free(w->transmit);
	for (unsigned int d = 0; d < DEVICES; d++) {
		weir_device_close(&w->device[d]);
		ring_device_free(&w->ring[d]);
	}
	weir_buffers_fini(&w->buffers);
	worker_lab_check_sums(lab_counters(w->lab));
	lab_free(w->lab);
	assert_int_equal(device_lab_in_use(), 0);
	free(w);
}

void worker_lab_feed(struct worker_lab *w, uint8_t device, const struct frame_spec *spec) {
	struct frame f;

	frame_build(spec, &f);
	assert_true(ring_device_feed(&w->ring[device], 0, f.bytes, f.n));
}

uint32_t worker_lab_on_wire(struct worker_lab *w, uint8_t device) {
	return rte_ring_count(w->ring[device].from[0]);
}

struct frame_spec worker_lab_for_kernel(void) {
	struct frame_spec spec = lab_tcp(1, ACK);

	spec.destination = frame_stranger4;
	return spec;
}

void worker_lab_fill(struct worker_lab *w, uint8_t device) {
	struct rte_mbuf *m;

	while ((m = rte_pktmbuf_alloc(device_lab_pool())) != NULL &&
		rte_ring_enqueue(w->ring[device].from[0], m) == 0) {
	}
	assert_non_null(m);
	rte_pktmbuf_free(m);
}

void worker_lab_drain(struct worker_lab *w) {
	for (uint8_t d = 0; d < DEVICES; d++) {
		struct rte_mbuf *m;

		while (w->ring[d].queues > 0 && (m = ring_device_take(&w->ring[d], 0)) != NULL) {
			rte_pktmbuf_free(m);
		}
	}
}
