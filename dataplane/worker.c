// SPDX-License-Identifier: BSD-3-Clause
#include "worker.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_ethdev.h>
#include <rte_malloc.h>
#include <rte_pause.h>
#include <rte_prefetch.h>
#include <rte_ring.h>

#include "flow.h"
#include "flow_query.h"
#include "segment.h"

_Static_assert(WEIR_DISTRIBUTOR_BUCKETS == WEIR_FLOW_PARTS, "a bucket is a part of the flows");

#define PREFETCH 4u // packets ahead

// Idle mode `yield`: turns without packets before the pause becomes longer.
#define SPIN_TURNS 32 // a pause instruction each
#define YIELD_TURNS 64 // a sched_yield each: nothing is lost when no one else wants the CPU
#define SLEEP_FIRST_NS 8000
#define SLEEP_LAST_NS 100000

// Packets of a burst that go to one device, with the place of their verdicts.
struct batch {
	uint16_t count;
	struct rte_mbuf *pkts[WEIR_BURST];
	const struct weir_verdict *verdict[WEIR_BURST];
};

struct weir_worker {
	const struct weir_segment *segment;
	struct weir_worker_counters *counters;
	struct weir_pipeline *pipeline;
	const struct weir_transmit *transmit;
	const struct weir_port *ports;
	uint32_t ports_count;
	uint32_t index;
	enum weir_config_idle idle;
	bool stop; // written by another thread
	struct weir_clock clock;
	uint64_t now_ns;
	uint32_t idle_turns;
	uint16_t sources;
	uint16_t outlets;
	struct weir_source source[WEIR_SOURCES_MAX];
	struct weir_outlet *outlet[WEIR_DEVICES_MAX * WEIR_WORKERS_MAX];
	struct weir_verdict verdicts[WEIR_BURST];
	struct rte_ring *next; // to the next worker; NULL = nothing is offered
	struct batch to_device[WEIR_DEVICES_MAX];
	struct batch to_worker[WEIR_WORKERS_MAX];
};

// --- counting -----------------------------------------------------------------------------

// Count packets that no pipeline counts.
static void count_received(struct weir_worker *worker, uint32_t packets, uint64_t bytes) {
	weir_counter_add(&worker->counters->rx_packets, packets);
	weir_counter_add(&worker->counters->rx_bytes, bytes);
}

static void count_dropped(
	struct weir_worker *worker, enum weir_drop_reason reason, uint32_t packets) {
	weir_counter_add(&worker->counters->dropped, packets);
	weir_counter_add(&worker->counters->drops[reason], packets);
}

static uint64_t bytes_of(struct rte_mbuf *const *pkts, uint32_t n) {
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		bytes += pkts[i]->pkt_len;
	}
	return bytes;
}

static void count_sent(struct weir_worker *worker, uint32_t packets, uint64_t bytes) {
	weir_counter_add(&worker->counters->tx_packets, packets);
	weir_counter_add(&worker->counters->tx_bytes, bytes);
}

// --- sending ------------------------------------------------------------------------------

static const struct weir_path *path_to(const struct weir_worker *worker, uint8_t device) {
	return &worker->transmit->path[device][worker->index];
}

static void undelivered(struct weir_worker *worker, struct rte_mbuf *m,
	const struct weir_verdict *verdict, enum weir_drop_reason reason) {
	weir_pipeline_undelivered(worker->pipeline, m, verdict, reason);
	rte_pktmbuf_free(m);
}

// Send a batch. All its packets are of one kind: a device is either a port or a way to the kernel.
static void flush(struct weir_worker *worker, uint8_t device) {
	struct batch *batch = &worker->to_device[device];
	bool kernel = batch->verdict[0]->action == WEIR_ACTION_KERNEL;
	uint64_t bytes = bytes_of(batch->pkts, batch->count);
	uint16_t sent = weir_path_send(path_to(worker, device), batch->pkts, batch->count);

	for (uint16_t i = sent; unlikely(i < batch->count); i++) {
		bytes -= batch->pkts[i]->pkt_len;
		undelivered(worker, batch->pkts[i], batch->verdict[i],
			kernel ? WEIR_DROP_EXCEPTION_FULL : WEIR_DROP_TX_FULL);
	}
	if (likely(!kernel)) {
		count_sent(worker, sent, bytes);
	}
	batch->count = 0;
}

// The device that a verdict sends a packet to, or WEIR_NO_DEVICE.
static uint8_t device_of(
	const struct weir_worker *worker, const struct weir_verdict *verdict, uint8_t in_port) {
	if (unlikely(verdict->action == WEIR_ACTION_KERNEL)) {
		return worker->ports[in_port].exception;
	}
	return verdict->port < worker->ports_count ? worker->ports[verdict->port].wire
						   : WEIR_NO_DEVICE;
}

// Free a packet for the kernel whose port has no exception device.
static void no_way_to_kernel(struct weir_worker *worker, struct rte_mbuf *m,
	const struct weir_verdict *verdict, uint8_t in_port) {
	if (worker->ports[in_port].kernel_has_copy) {
		rte_pktmbuf_free(m);
		return;
	}
	undelivered(worker, m, verdict, WEIR_DROP_NO_EXCEPTION_PORT);
}

// Free a packet, or give it to the next worker, which may know its flow.
static void drop_or_offer(
	struct weir_worker *worker, struct rte_mbuf *m, const struct weir_verdict *verdict) {
	_Static_assert(WEIR_ACTION_OFFER == WEIR_ACTION_DROP + 1, "the last two");
	if (likely(verdict->action == WEIR_ACTION_DROP)) {
		rte_pktmbuf_free(m);
	} else if (worker->next != NULL && rte_ring_sp_enqueue(worker->next, m) == 0) {
		weir_counter_add(&worker->counters->handed_over, 1);
	} else {
		undelivered(worker, m, verdict, WEIR_DROP_HANDOFF_FULL);
	}
}

// Carry out the verdicts of a burst, at most WEIR_BURST: sorted by device, in order within each.
static void deliver(struct weir_worker *worker, struct rte_mbuf **pkts,
	const struct weir_verdict *verdicts, uint16_t n, uint8_t in_port) {
	uint8_t touched[WEIR_DEVICES_MAX];
	unsigned int devices = 0;

	for (uint16_t i = 0; i < n; i++) {
		const struct weir_verdict *verdict = &verdicts[i];
		struct batch *batch;
		uint8_t device;

		if (unlikely(verdict->action >= WEIR_ACTION_DROP)) {
			drop_or_offer(worker, pkts[i], verdict);
			continue;
		}
		device = device_of(worker, verdict, in_port);
		if (unlikely(device == WEIR_NO_DEVICE)) {
			no_way_to_kernel(worker, pkts[i], verdict, in_port);
			continue;
		}
		if (unlikely(!weir_path_admits(path_to(worker, device), pkts[i]))) {
			undelivered(worker, pkts[i], verdict, WEIR_DROP_TX_TOO_LONG);
			continue;
		}
		batch = &worker->to_device[device];
		if (batch->count == 0) {
			touched[devices++] = device;
		}
		batch->pkts[batch->count] = pkts[i];
		batch->verdict[batch->count++] = verdict;
	}
	for (unsigned int i = 0; i < devices; i++) {
		flush(worker, touched[i]);
	}
}

// Send the packets that the pipeline made in addition to those of the burst.
static __rte_noinline void deliver_extra(struct weir_worker *worker, struct rte_mbuf **pkts,
	const struct weir_verdict *verdicts, uint16_t n, uint8_t in_port) {
	for (uint16_t i = 0; i < n; i = (uint16_t)(i + WEIR_BURST)) {
		deliver(worker, pkts + i, verdicts + i, RTE_MIN((uint16_t)(n - i), WEIR_BURST),
			in_port);
	}
}

static void deliver_burst(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	const struct weir_verdict *extra_verdicts;
	struct rte_mbuf **extra_pkts;
	uint16_t extra;

	deliver(worker, pkts, worker->verdicts, n, in_port);
	extra = weir_pipeline_extra(worker->pipeline, &extra_pkts, &extra_verdicts);
	if (unlikely(extra > 0)) {
		deliver_extra(worker, extra_pkts, extra_verdicts, extra, in_port);
	}
}

static void process(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	weir_pipeline_process(worker->pipeline, pkts, n, in_port, worker->now_ns, worker->verdicts);
	deliver_burst(worker, pkts, n, in_port);
}

// Packets that another worker has offered: in runs from the same port.
static __rte_noinline void process_offered(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n) {
	uint16_t run;

	for (uint16_t i = 0; i < n; i = (uint16_t)(i + run)) {
		uint8_t in_port = weir_pipeline_offered_port(pkts[i]);

		run = 1;
		while (i + run < n && weir_pipeline_offered_port(pkts[i + run]) == in_port) {
			run++;
		}
		weir_pipeline_process_offered(
			worker->pipeline, pkts + i, run, in_port, worker->now_ns, worker->verdicts);
		deliver_burst(worker, pkts + i, run, in_port);
	}
}

// --- sources ------------------------------------------------------------------------------

static void hand_over(
	struct weir_worker *worker, const struct weir_distributor *distributor, uint32_t target) {
	struct batch *batch = &worker->to_worker[target];
	uint64_t bytes = bytes_of(batch->pkts, batch->count);
	uint16_t taken = (uint16_t)rte_ring_sp_enqueue_burst(
		distributor->ring[target], (void **)batch->pkts, batch->count, NULL);

	count_received(worker, batch->count, bytes);
	weir_counter_add(&worker->counters->handed_over, taken);
	if (unlikely(taken < batch->count)) {
		count_dropped(worker, WEIR_DROP_HANDOFF_FULL, (uint32_t)(batch->count - taken));
		rte_pktmbuf_free_bulk(batch->pkts + taken, (unsigned int)(batch->count - taken));
	}
	batch->count = 0;
}

// Sort a burst by worker, process this worker's packets and hand the others over.
static void distribute(struct weir_worker *worker, const struct weir_source *source,
	struct rte_mbuf **pkts, uint16_t n) {
	uint16_t ours = 0;

	for (uint16_t i = 0; i < RTE_MIN(n, PREFETCH); i++) {
		rte_prefetch0(rte_pktmbuf_mtod(pkts[i], void *));
	}
	for (uint16_t i = 0; i < n; i++) {
		struct batch *batch;
		uint32_t target;

		if (i + PREFETCH < n) {
			rte_prefetch0(rte_pktmbuf_mtod(pkts[i + PREFETCH], void *));
		}
		target = weir_distributor_worker(
			source->distributor, weir_pipeline_distribute(worker->pipeline, pkts[i]));
		if (target == worker->index) {
			pkts[ours++] = pkts[i];
			continue;
		}
		batch = &worker->to_worker[target];
		batch->pkts[batch->count++] = pkts[i];
	}
	for (uint32_t target = 0; target < source->distributor->workers; target++) {
		if (worker->to_worker[target].count > 0) {
			hand_over(worker, source->distributor, target);
		}
	}
	if (ours > 0) {
		process(worker, pkts, ours, source->port);
	}
}

// Send the packets of the kernel on the port, unchanged. They belong to no service, so they count
// as sent only; those that cannot be sent count as received and dropped, which keeps the sums
// right.
static void forward_from_kernel(struct weir_worker *worker, const struct weir_source *source,
	struct rte_mbuf **pkts, uint16_t n) {
	const struct weir_path *path = path_to(worker, worker->ports[source->port].wire);
	uint16_t admitted = 0, sent;
	uint64_t bytes;

	for (uint16_t i = 0; i < n; i++) {
		if (likely(weir_path_admits(path, pkts[i]))) {
			pkts[admitted++] = pkts[i];
			continue;
		}
		count_received(worker, 1, pkts[i]->pkt_len);
		count_dropped(worker, WEIR_DROP_TX_TOO_LONG, 1);
		rte_pktmbuf_free(pkts[i]);
	}
	bytes = bytes_of(pkts, admitted);
	sent = weir_path_send(path, pkts, admitted);
	if (unlikely(sent < admitted)) {
		uint64_t lost = bytes_of(pkts + sent, (uint32_t)(admitted - sent));

		bytes -= lost;
		count_received(worker, (uint32_t)(admitted - sent), lost);
		count_dropped(worker, WEIR_DROP_TX_FULL, (uint32_t)(admitted - sent));
		rte_pktmbuf_free_bulk(pkts + sent, (unsigned int)(admitted - sent));
	}
	count_sent(worker, sent, bytes);
}

static uint16_t poll_source(struct weir_worker *worker, const struct weir_source *source) {
	struct rte_mbuf *pkts[WEIR_BURST];
	uint16_t n;

	if (source->kind == WEIR_SOURCE_HANDED || source->kind == WEIR_SOURCE_OFFERED) {
		n = (uint16_t)rte_ring_sc_dequeue_burst(
			source->ring, (void **)pkts, WEIR_BURST, NULL);
	} else {
		n = rte_eth_rx_burst(source->device, source->queue, pkts, WEIR_BURST);
	}
	if (n == 0) {
		return 0;
	}
	switch ((enum weir_source_kind)source->kind) {
	case WEIR_SOURCE_QUEUE:
	case WEIR_SOURCE_HANDED:
		process(worker, pkts, n, source->port);
		break;
	case WEIR_SOURCE_OFFERED:
		process_offered(worker, pkts, n);
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

static void respond(struct weir_worker *worker) {
	struct weir_worker_box *ours = &worker->segment->worker_boxes[worker->index];
	const struct weir_control_box *theirs = &worker->segment->control_boxes[worker->index];
	struct weir_message message;

	if (likely(!weir_mailbox_receive(&theirs->request, &ours->request, &message))) {
		return;
	}
	weir_flow_query_respond(worker->pipeline, &message, worker->now_ns);
	// If control does not collect its responses, they are lost.
	(void)weir_mailbox_send(&ours->response, &theirs->response, &message);
}

static void tell_time(struct weir_worker *worker, uint64_t cycles) {
	if (unlikely(weir_clock_due(&worker->clock, cycles))) {
		weir_clock_correct(&worker->clock, cycles);
		__atomic_store_n(
			&worker->counters->heartbeat_ns, worker->clock.base_ns, __ATOMIC_RELAXED);
	}
	worker->now_ns = weir_clock_ns(&worker->clock, cycles);
}

uint32_t weir_worker_turn(struct weir_worker *worker) {
	uint32_t moved = 0;

	tell_time(worker, rte_rdtsc());
	for (uint16_t i = 0; i < worker->sources; i++) {
		moved += poll_source(worker, &worker->source[i]);
	}
	for (uint16_t i = 0; i < worker->outlets; i++) {
		moved += weir_outlet_drain(worker->outlet[i]);
	}
	respond(worker);
	if (unlikely(weir_pipeline_maintain(worker->pipeline, worker->now_ns))) {
		worker->idle_turns = 0; // a great table: no sleep until expiry has caught up
	}
	// No pointer into a table survives a turn.
	weir_pipeline_quiescent(worker->pipeline);
	return moved;
}

// The only exception from S1: a worker in idle mode `yield` yields its CPU after turns that had
// nothing to do. No packet waits for it then, and the longest sleep is a tenth of a millisecond.
static void pause_idle(struct weir_worker *worker) {
	struct timespec sleep = {0};
	uint32_t turns = worker->idle_turns++;

	if (worker->idle == WEIR_IDLE_POLL || turns < SPIN_TURNS) {
		rte_pause();
		return;
	}
	if (turns < SPIN_TURNS + YIELD_TURNS) {
		sched_yield();
		return;
	}
	turns = RTE_MIN(turns - SPIN_TURNS - YIELD_TURNS, 8u);
	sleep.tv_nsec = RTE_MIN(SLEEP_FIRST_NS << turns, SLEEP_LAST_NS);
	clock_nanosleep(CLOCK_MONOTONIC, 0, &sleep, NULL);
}

int weir_worker_run(void *context) {
	struct weir_worker *worker = context;
	struct weir_worker_counters *counters = worker->counters;
	uint64_t before = rte_rdtsc();

	// The kernel would add 50 us to each pause.
	prctl(PR_SET_TIMERSLACK, 1000);
	weir_pipeline_online(worker->pipeline);
	while (!__atomic_load_n(&worker->stop, __ATOMIC_RELAXED)) {
		uint32_t moved = weir_worker_turn(worker);
		uint64_t now;

		if (moved > 0) {
			worker->idle_turns = 0;
		} else {
			pause_idle(worker);
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
	worker->index = params->index;
	worker->segment = params->segment;
	worker->counters = &params->segment->worker_counters[params->index];
	worker->pipeline = params->pipeline;
	worker->transmit = params->transmit;
	worker->ports = params->ports;
	worker->ports_count = params->ports_count;
	worker->idle = params->idle;
	weir_clock_init(&worker->clock, rte_rdtsc(), rte_get_tsc_hz());
	worker->counters->heartbeat_ns = worker->clock.base_ns;
	*ret = worker;
	return 0;
}

void weir_worker_free(struct weir_worker *worker) {
	rte_free(worker);
}

int weir_worker_add_source(struct weir_worker *worker, const struct weir_source *source) {
	if (worker->sources == WEIR_SOURCES_MAX) {
		return -ENOSPC;
	}
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
