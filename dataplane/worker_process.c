// SPDX-License-Identifier: BSD-3-Clause
#include "worker_private.h"

// --- sending ------------------------------------------------------------------------------

static void undelivered(struct weir_worker *worker, struct rte_mbuf *m,
	const struct weir_verdict *verdict, enum weir_drop_reason reason) {
	// Captures contain only received packets, not additional packets from the pipeline.
	if (worker->capturing && verdict >= worker->verdicts &&
		verdict < worker->verdicts + WEIR_BURST) {
		weir_packet_capture_undelivered(
			worker->capture, (uint32_t)(verdict - worker->verdicts), reason);
	}
	weir_pipeline_undelivered(worker->pipeline, m, verdict, reason);
	rte_pktmbuf_free(m);
}

// Send a batch. Either all or none of its packets go to the kernel, because a device is either a
// port or an exception device.
static void flush(struct weir_worker *worker, uint8_t device) {
	struct batch *batch = &worker->to_device[device];
	bool kernel = batch->verdict[0]->action == WEIR_ACTION_KERNEL;
	uint64_t bytes = weir_worker_bytes(batch->pkts, batch->count);
	uint16_t sent = weir_path_send(weir_worker_path(worker, device), batch->pkts, batch->count);

	for (uint16_t i = sent; unlikely(i < batch->count); i++) {
		bytes -= batch->pkts[i]->pkt_len;
		undelivered(worker, batch->pkts[i], batch->verdict[i],
			kernel ? WEIR_DROP_EXCEPTION_FULL : WEIR_DROP_TX_FULL);
	}
	if (likely(!kernel)) {
		weir_worker_count_sent(worker, sent, bytes);
	}
	batch->count = 0;
}

// Returns the device to send a packet to, according to its verdict, or WEIR_NO_DEVICE.
static uint8_t device_of(
	const struct weir_worker *worker, const struct weir_verdict *verdict, uint8_t in_port) {
	if (unlikely(verdict->action == WEIR_ACTION_KERNEL)) {
		return worker->ports[in_port].exception;
	}
	return verdict->port < worker->ports_count ? worker->ports[verdict->port].wire
						   : WEIR_NO_DEVICE;
}

// Frees a packet for the kernel whose port has no exception device. Counts the packet as dropped,
// unless the kernel has its own copy of the packet.
static void no_way_to_kernel(struct weir_worker *worker, struct rte_mbuf *m,
	const struct weir_verdict *verdict, uint8_t in_port) {
	if (worker->ports[in_port].kernel_has_copy) {
		rte_pktmbuf_free(m);
		return;
	}
	undelivered(worker, m, verdict, WEIR_DROP_NO_EXCEPTION_PORT);
}

// Carries out the verdict DROP or OFFER of a packet: frees the packet, or passes it to the next
// worker, which may have the flow of the packet.
static void drop_or_offer(
	struct weir_worker *worker, struct rte_mbuf *m, const struct weir_verdict *verdict) {
	_Static_assert(WEIR_ACTION_OFFER == WEIR_ACTION_DROP + 1,
		"drop_or_offer handles only these two actions");
	if (likely(verdict->action == WEIR_ACTION_DROP)) {
		rte_pktmbuf_free(m);
	} else if (worker->next != NULL && rte_ring_sp_enqueue(worker->next, m) == 0) {
		weir_counter_add(&worker->counters->handed_over, 1);
	} else {
		undelivered(worker, m, verdict, WEIR_DROP_HANDOFF_FULL);
	}
}

// Carry out the verdicts of a burst of at most WEIR_BURST packets. Packets are sorted by device,
// and keep their order within each device.
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
		if (unlikely(!weir_path_admits(weir_worker_path(worker, device), pkts[i]))) {
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

// Send the packets that the pipeline made in addition to the packets of the burst.
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

// --- a burst ------------------------------------------------------------------------------

static void run_pipeline(struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, bool offered) {
	if (offered) {
		weir_pipeline_process_offered(
			worker->pipeline, pkts, n, in_port, worker->now_ns, worker->verdicts);
	} else {
		weir_pipeline_process(
			worker->pipeline, pkts, n, in_port, worker->now_ns, worker->verdicts);
	}
}

// Process a burst during a capture. In addition to the normal processing, record each packet that
// matches the capture. A capture of one flow divides the burst (weir_packet_capture_begin).
static __rte_noinline void process_captured(struct weir_worker *worker, struct rte_mbuf **pkts,
	uint16_t n, uint8_t in_port, bool offered) {
	uint16_t run;

	for (uint16_t i = 0; i < n; i = (uint16_t)(i + run)) {
		run = (uint16_t)(n - i);
		worker->capturing = weir_packet_capture_begin(
			worker->capture, pkts + i, &run, in_port, worker->now_ns);
		run_pipeline(worker, pkts + i, run, in_port, offered);
		if (worker->capturing) {
			weir_packet_capture_note(worker->capture, worker->verdicts);
		}
		deliver_burst(worker, pkts + i, run, in_port);
		if (worker->capturing) {
			weir_packet_capture_end(worker->capture);
			worker->capturing = false;
		}
	}
}

void weir_worker_process(
	struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n, uint8_t in_port) {
	if (weir_worker_captures(worker)) {
		process_captured(worker, pkts, n, in_port, false);
		return;
	}
	weir_pipeline_process(worker->pipeline, pkts, n, in_port, worker->now_ns, worker->verdicts);
	deliver_burst(worker, pkts, n, in_port);
}

// Processes packets that another worker has offered. The packets may come from several ports;
// consecutive packets from the same port are processed together.
void weir_worker_process_offered(struct weir_worker *worker, struct rte_mbuf **pkts, uint16_t n) {
	uint16_t run;

	for (uint16_t i = 0; i < n; i = (uint16_t)(i + run)) {
		uint8_t in_port = weir_pipeline_offered_port(pkts[i]);

		run = 1;
		while (i + run < n && weir_pipeline_offered_port(pkts[i + run]) == in_port) {
			run++;
		}
		if (weir_worker_captures(worker)) {
			process_captured(worker, pkts + i, run, in_port, true);
			continue;
		}
		run_pipeline(worker, pkts + i, run, in_port, true);
		deliver_burst(worker, pkts + i, run, in_port);
	}
}
