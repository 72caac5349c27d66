// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: processes a burst of packets between receive and transmit. A worker, weir-pcap and
// weir-bench run the same code.
//
// Stages, each a loop over the burst: parse and validate; hash; flow lookup; for misses service
// lookup, selection, insertion; rewrite (encapsulate) or reply. See docs/design/architecture.md,
// "Packet path".
//
// Threads: one pipeline per worker; only that worker calls these. S1: no lock, no allocation, no
// log, no system call, no division.
//
// Counting: the pipeline counts every packet that it gets as received, and as exactly one of
// forwarded, replied, to_kernel or dropped. weir_pipeline_undelivered() moves a packet that the
// caller cannot deliver to dropped. So at every moment, for every worker,
//   rx_packets + fragments_made == forwarded + replied + to_kernel + dropped + handed_over
//   dropped == sum of drops[]
// where a worker that hands packets to another one without giving them to its own pipeline adds
// them to rx_packets, rx_bytes and handed_over itself. To keep this true and the counters
// monotonic, the figures of a burst are published by the next call of weir_pipeline_maintain. A
// packet whose reply is a "too big" message, a refusal or an RST was not delivered: it counts as
// dropped (MTU_EXCEEDED, CLOSED_PORT, BACKEND_DOWN), not as replied. The caller counts the packets
// that it sends (tx_packets, tx_bytes).
#pragma once

#include <rte_mbuf.h>

#include "verdict.h"

struct weir_pipeline;

// Process a burst of n packets (0 is allowed) that arrived on in_port (an index into
// segment->header->port). pkts and verdicts are arrays in either case.
// The caller keeps pkts; for FORWARD and REPLY their data was rewritten in place.
// Adopts published changes, at most WEIR_READER_STEPS, before the first packet. The caller must
// later report a quiescent state (weir_pipeline_quiescent).
void weir_pipeline_process(struct weir_pipeline *pipeline, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts);

// Set-up: `workers` pipelines, this one included, may have the flow of a packet, and the caller
// carries out WEIR_ACTION_OFFER: it passes the packet to the next one, and counts it as handed
// over. 0 = no others, as after creation.
void weir_pipeline_offer_to(struct weir_pipeline *pipeline, uint32_t workers);
// weir_pipeline_process for packets that another worker has offered. in_port:
// weir_pipeline_offered_port of each.
void weir_pipeline_process_offered(struct weir_pipeline *pipeline, struct rte_mbuf **pkts,
	uint16_t n, uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts);
uint8_t weir_pipeline_offered_port(const struct rte_mbuf *m);

// The packets that the last burst made in addition to its input, further pieces of fragmented
// packets, and their verdicts (FORWARD). The caller then owns the packets; the arrays are valid
// until the next burst. Returns their number. Call after each burst: the next one frees packets
// that were not taken.
uint16_t weir_pipeline_extra(struct weir_pipeline *pipeline, struct rte_mbuf ***ret_pkts,
	const struct weir_verdict **ret_verdicts);

// The caller could not deliver packet m of the last burst, or of the extra ones, which has this
// verdict (FORWARD, REPLY or KERNEL): count it as dropped for `reason` instead, also for its
// service and backend, from whose packets and bytes it is subtracted. Before the next call of
// weir_pipeline_maintain. The counters of services and backends are not published per turn: a
// reader may see a packet there that is subtracted within microseconds.
void weir_pipeline_undelivered(struct weir_pipeline *pipeline, const struct rte_mbuf *m,
	const struct weir_verdict *verdict, enum weir_drop_reason reason);

// Add the cycles of each stage to `trace` from now on (trace.h); NULL = stop. For weir-bench.
struct weir_trace;
void weir_pipeline_trace(struct weir_pipeline *pipeline, struct weir_trace *trace);

// Begin or end taking part in grace periods (grace.h). _online also adopts everything published, as
// weir_pipeline_settle does at any time. Not bounded: before the first turn.
void weir_pipeline_online(struct weir_pipeline *pipeline);
void weir_pipeline_offline(struct weir_pipeline *pipeline);
void weir_pipeline_settle(struct weir_pipeline *pipeline);

// Report a quiescent state: no packet is being processed. Once per turn, after its last burst.
void weir_pipeline_quiescent(struct weir_pipeline *pipeline);

// Maintenance between bursts: adopts published changes, expires flows (both bounded), publishes
// counters and gauges. Call once per turn of the poll loop. Returns true if more flows are due:
// call again soon, do not sleep.
bool weir_pipeline_maintain(struct weir_pipeline *pipeline, uint64_t now_ns);
