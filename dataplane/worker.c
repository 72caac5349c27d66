// SPDX-License-Identifier: BSD-3-Clause
#include "worker_private.h"

#include <errno.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "distribute.h"
#include "flow.h"
#include "flow_query.h"

_Static_assert(WEIR_DISTRIBUTOR_BUCKETS == WEIR_FLOW_PARTS,
	"each bucket must have one part of the flow table");

#define PREFETCH 4u // number of packets to prefetch ahead

// --- sources ------------------------------------------------------------------------------

static void hand_over(struct weir_worker *worker, struct weir_distributor *distributor,
	uint32_t target, uint8_t in_port) {
	struct batch *batch = &worker->to_worker[target];
	uint64_t bytes = weir_worker_bytes(batch->pkts, batch->count);
	unsigned int room;
	uint16_t taken;

	if (unlikely(distributor->crowded[target]) && worker->moves != NULL) {
		weir_moves_press(worker->moves, distributor, target, batch->pkts, batch->count,
			worker->now_ns);
	}
	taken = (uint16_t)rte_ring_sp_enqueue_burst(
		distributor->ring[target], (void **)batch->pkts, batch->count, &room);
	distributor->put[target] += taken;
	distributor->crowded[target] = room < WEIR_DISTRIBUTOR_RING / 4;
	weir_worker_count_received(worker, batch->count, bytes);
	weir_counter_add(&worker->counters->handed_over, taken);
	if (unlikely(taken < batch->count)) {
		weir_worker_count_dropped(worker, WEIR_DROP_HANDOFF_FULL, batch->pkts + taken,
			(uint32_t)(batch->count - taken), in_port);
		rte_pktmbuf_free_bulk(batch->pkts + taken, (unsigned int)(batch->count - taken));
	}
	batch->count = 0;
}

// Sorts a burst of packets from a shared queue by worker, processes the packets of this worker, and
// hands over the packets of other workers.
static void distribute(struct weir_worker *worker, const struct weir_source *source,
	struct rte_mbuf **pkts, uint16_t n) {
	struct weir_distributor *distributor = source->distributor;
	uint64_t *count = worker->moves != NULL
				  ? worker->segment->bucket_packets[worker->index].packets
				  : NULL;
	uint16_t ours = 0;

	for (uint16_t i = 0; i < RTE_MIN(n, PREFETCH); i++) {
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], void *));
	}
	for (uint16_t i = 0; i < n; i++) {
		struct batch *batch;
		uint32_t bucket, target;

		if (i + PREFETCH < n) {
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + PREFETCH], void *));
		}
		bucket = weir_pipeline_distribute(worker->pipeline, pkts[i]);
		weir_distributor_mark(pkts[i], bucket);
		if (likely(count != NULL)) {
			weir_counter_add(&count[bucket], 1);
		}
		target = weir_distributor_worker(distributor, bucket);
		if (target == worker->index) {
			pkts[ours++] = pkts[i];
			continue;
		}
		batch = &worker->to_worker[target];
		batch->pkts[batch->count++] = pkts[i];
	}
	for (uint32_t target = 0; target < distributor->workers; target++) {
		if (worker->to_worker[target].count > 0) {
			hand_over(worker, distributor, target, source->port);
		}
	}
	ours = weir_worker_hold(worker, pkts, ours, source->port);
	ours = weir_worker_hold_shift(worker, distributor, pkts, ours, source->port);
	if (ours > 0) {
		weir_worker_process(worker, pkts, ours, source->port);
	}
}

// Send packets from the kernel on the port, unchanged. These packets belong to no service and count
// only as sent. A packet that cannot be sent counts as received and as dropped, so that the sums of
// the counters stay consistent.
static void forward_from_kernel(struct weir_worker *worker, const struct weir_source *source,
	struct rte_mbuf **pkts, uint16_t n) {
	struct weir_path *path = weir_worker_path(worker, worker->ports[source->port].wire);
	uint16_t admitted = 0, sent;
	uint64_t bytes;

	for (uint16_t i = 0; i < n; i++) {
		if (likely(weir_path_admits(path, pkts[i]))) {
			pkts[admitted++] = pkts[i];
			continue;
		}
		weir_worker_count_received(worker, 1, pkts[i]->pkt_len);
		weir_worker_count_dropped(worker, WEIR_DROP_TX_TOO_LONG, &pkts[i], 1, source->port);
		rte_pktmbuf_free(pkts[i]);
	}
	bytes = weir_worker_bytes(pkts, admitted);
	sent = weir_path_send(path, pkts, admitted);
	if (unlikely(sent < admitted)) {
		uint64_t lost = weir_worker_bytes(pkts + sent, (uint32_t)(admitted - sent));

		bytes -= lost;
		weir_worker_count_received(worker, (uint32_t)(admitted - sent), lost);
		weir_worker_count_dropped(worker, WEIR_DROP_TX_FULL, pkts + sent,
			(uint32_t)(admitted - sent), source->port);
		rte_pktmbuf_free_bulk(pkts + sent, (unsigned int)(admitted - sent));
	}
	weir_worker_count_sent(worker, sent, bytes);
}

static uint16_t receive(const struct weir_source *source, struct rte_mbuf **pkts) {
	uint16_t n;

	switch ((enum weir_source_kind)source->kind) {
	case WEIR_SOURCE_HANDED:
	case WEIR_SOURCE_OFFERED:
		return (uint16_t)rte_ring_sc_dequeue_burst(
			source->ring, (void **)pkts, WEIR_BURST, NULL);
	case WEIR_SOURCE_SHARED:
		weir_distributor_switch(source->distributor); // between two bursts
		n = rte_eth_rx_burst(source->device, source->queue, pkts, WEIR_BURST);
		weir_distributor_received(source->distributor, n);
		return n;
	case WEIR_SOURCE_QUEUE:
	case WEIR_SOURCE_KERNEL:
		break;
	}
	return rte_eth_rx_burst(source->device, source->queue, pkts, WEIR_BURST);
}

static void process_handed(struct weir_worker *worker, const struct weir_source *source,
	struct rte_mbuf **pkts, uint16_t n) {
	if (worker->mover != NULL) {
		weir_mover_took(worker->mover, source->distributor->number, n);
		n = weir_worker_hold(worker, pkts, n, source->port);
	}
	if (n > 0) {
		weir_worker_process(worker, pkts, n, source->port);
	}
}

static uint16_t poll_source(struct weir_worker *worker, const struct weir_source *source) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint16_t n = receive(source, pkts);

	if (n == 0) {
		return 0;
	}
	switch ((enum weir_source_kind)source->kind) {
	case WEIR_SOURCE_QUEUE:
		weir_worker_process(worker, pkts, n, source->port);
		break;
	case WEIR_SOURCE_HANDED:
		process_handed(worker, source, pkts, n);
		break;
	case WEIR_SOURCE_OFFERED:
		weir_worker_process_offered(worker, pkts, n);
		break;
	case WEIR_SOURCE_SHARED:
		distribute(worker, source, pkts, n);
		break;
	case WEIR_SOURCE_KERNEL:
		forward_from_kernel(worker, source, pkts, n);
		break;
	}
	return n;
}

// --- a turn -------------------------------------------------------------------------------

// Answer one request of control. Returns whether there was a request.
static bool respond(struct weir_worker *worker) {
	struct weir_worker_box *ours = &worker->segment->worker_boxes[worker->index];
	const struct weir_control_box *theirs = &worker->segment->control_boxes[worker->index];
	struct weir_message message;

	if (likely(!weir_mailbox_receive(&theirs->request, &ours->request, &message))) {
		return false;
	}
	if (message.kind == WEIR_MESSAGE_STEAL) {
		message.steal.answer = weir_worker_give(worker, message.steal.bucket,
			message.steal.thief, message.steal.deadline_ns);
	} else {
		weir_flow_query_respond(worker->pipeline, &message, worker->now_ns);
	}
	// Ignore the result: if weir-control has not read earlier responses and the ring is full,
	// the response is lost.
	(void)weir_mailbox_send(&ours->response, &theirs->response, &message);
	return true;
}

static void update_time(struct weir_worker *worker, uint64_t cycles) {
	if (unlikely(weir_clock_due(&worker->clock, cycles))) {
		weir_clock_correct(&worker->clock, cycles);
		__atomic_store_n(
			&worker->counters->heartbeat_ns, worker->clock.base_ns, __ATOMIC_RELAXED);
	}
	worker->now_ns = weir_clock_ns(&worker->clock, cycles);
}

uint32_t weir_worker_turn(struct weir_worker *worker) {
	uint32_t moved = 0;

	update_time(worker, rte_rdtsc());
	for (uint16_t i = 0; i < worker->sources; i++) {
		moved += poll_source(worker, &worker->source[i]);
	}
	for (uint16_t i = 0; i < worker->outlets; i++) {
		moved += weir_outlet_drain(worker->outlet[i]);
	}
	if (unlikely(respond(worker))) {
		// More requests of a walk over the flow tables may already be in the mailbox, so do
		// not sleep.
		worker->idle.turns = 0;
	}
	weir_worker_move_buckets(worker);
	if (unlikely(weir_pipeline_maintain(worker->pipeline, worker->now_ns))) {
		// More flows of a large table must be checked for expiry, so do not sleep.
		worker->idle.turns = 0;
	}
	// The worker may report a quiescent state here, because it keeps no pointers into tables
	// from one iteration to the next.
	weir_pipeline_quiescent(worker->pipeline);
	return moved;
}

int weir_worker_run(void *context) {
	struct weir_worker *worker = context;
	struct weir_worker_counters *counters = worker->counters;
	uint64_t before = rte_rdtsc();

	// The default timer slack would add 50 us to each pause.
	prctl(PR_SET_TIMERSLACK, 1000);
	weir_pipeline_online(worker->pipeline);
	while (!__atomic_load_n(&worker->stop, __ATOMIC_RELAXED)) {
		uint32_t moved = weir_worker_turn(worker);
		uint64_t now;

		if (moved > 0) {
			weir_idle_end(&worker->idle);
		} else {
			weir_idle_pause(&worker->idle);
		}
		now = rte_rdtsc();
		weir_counter_add(
			moved > 0 ? &counters->busy_cycles : &counters->idle_cycles, now - before);
		weir_counter_add(&counters->loops, 1);
		before = now;
	}
	weir_pipeline_offline(worker->pipeline);
	return 0;
}

void weir_worker_stop(struct weir_worker *worker) {
	__atomic_store_n(&worker->stop, true, __ATOMIC_RELAXED);
}

// --- set-up -------------------------------------------------------------------------------

int weir_worker_create(const struct weir_worker_params *params, struct weir_worker **ret) {
	struct weir_worker *worker =
		rte_zmalloc_socket("worker", sizeof(*worker), RTE_CACHE_LINE_SIZE, params->socket);

	if (worker == NULL) {
		return -ENOMEM;
	}
	if (weir_packet_capture_create(params->pipeline, params->socket, &worker->capture) < 0) {
		rte_free(worker);
		return -ENOMEM;
	}
	worker->capture_wanted = &params->segment->news->capture;
	worker->index = params->index;
	worker->segment = params->segment;
	worker->counters = &params->segment->worker_counters[params->index];
	worker->pipeline = params->pipeline;
	worker->transmit = params->transmit;
	worker->ports = params->ports;
	worker->ports_count = params->ports_count;
	weir_idle_init(&worker->idle, params->idle);
	weir_clock_init(&worker->clock, rte_rdtsc(), rte_get_tsc_hz());
	worker->counters->heartbeat_ns = worker->clock.base_ns;
	*ret = worker;
	return 0;
}

void weir_worker_free(struct weir_worker *worker) {
	if (worker != NULL) {
		weir_idle_fini(&worker->idle);
		weir_packet_capture_free(worker->capture);
	}
	rte_free(worker);
}

int weir_worker_add_source(struct weir_worker *worker, const struct weir_source *source) {
	if (worker->sources == WEIR_SOURCES_MAX) {
		return -ENOSPC;
	}
	// Another worker fills the ring. Workers make no system calls, so the other worker cannot
	// wake this worker.
	worker->idle.not_woken |= source->ring != NULL;
	worker->source[worker->sources++] = *source;
	return 0;
}

int weir_worker_add_outlet(struct weir_worker *worker, struct weir_outlet *outlet) {
	if (worker->outlets == RTE_DIM(worker->outlet)) {
		return -ENOSPC;
	}
	worker->outlet[worker->outlets++] = outlet;
	return 0;
}

void weir_worker_offer_to(struct weir_worker *worker, struct rte_ring *next) {
	worker->next = next;
}

void weir_worker_join_moves(struct weir_worker *worker, struct weir_moves *moves) {
	worker->moves = moves;
	worker->mover = &moves->mover[worker->index];
	worker->steals = &worker->segment->steal_counters[worker->index];
}
