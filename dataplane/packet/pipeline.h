// SPDX-License-Identifier: BSD-3-Clause
//
// Pipeline: processes a burst of packets between receive and transmit. A worker, weir-pcap and
// weir-bench run the same code.
//
// Each stage is a loop over the burst: parse, validate and hash; flow lookup; service lookup,
// selection and insertion for flows that are not found; rewrite (replace the Ethernet header by the
// backend's headers) or reply. See docs/design/architecture.md, "Packet path".
//
// Threads: one pipeline per worker; only that worker calls these functions. No lock, no allocation,
// no log, no system call (S1, docs/design/architecture.md), and no division.
//
// Counting: the pipeline counts every packet that it gets as received, and as exactly one of
// forwarded, replied, to_kernel or dropped. For a packet with the verdict OFFER, the caller counts
// handed_over instead. If the caller cannot deliver a packet, weir_pipeline_undelivered() counts
// the packet as dropped instead. Therefore, after each call to weir_pipeline_maintain and for every
// worker,
//   rx_packets + fragments_made == forwarded + replied + to_kernel + dropped + handed_over
//   dropped == sum of drops[]
// The counts of a burst are only published by the next call to weir_pipeline_maintain, so that
// these equations hold and the counters never decrease.
//
// If a worker hands packets to another worker without giving them to its own pipeline, the worker
// adds them to rx_packets, rx_bytes and handed_over. A packet that gets the reply "too big", "port
// unreachable" or an RST was not delivered: it counts as dropped (MTU_EXCEEDED, CLOSED_PORT,
// BACKEND_DOWN), not as replied. The caller counts the packets that it sends (tx_packets,
// tx_bytes).
#pragma once

#include <rte_mbuf.h>

#include "verdict.h"

struct weir_pipeline;

// Process a burst of n packets (0 to WEIR_BURST) that arrived on in_port (an index into
// segment->header->port). pkts and verdicts must point to arrays, even if n is 0. The caller keeps
// pkts; for FORWARD and REPLY the packet data was rewritten in place. Adopts at most
// WEIR_READER_STEPS published changes before the first packet. The caller must later report a
// quiescent state (weir_pipeline_quiescent).
void weir_pipeline_process(struct weir_pipeline *pipeline, struct rte_mbuf **pkts, uint16_t n,
	uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts);

// Set the number of pipelines, including this pipeline, that can have the flow of a packet. 0, the
// initial value, means only this pipeline. Otherwise the pipeline returns WEIR_ACTION_OFFER for
// some packets; the caller must pass such a packet to the next pipeline and count it as handed
// over. [set-up]
void weir_pipeline_offer_to(struct weir_pipeline *pipeline, uint32_t workers);
// Same as weir_pipeline_process, for packets that another worker has offered. All packets must have
// the same weir_pipeline_offered_port, which is passed as in_port.
void weir_pipeline_process_offered(struct weir_pipeline *pipeline, struct rte_mbuf **pkts,
	uint16_t n, uint8_t in_port, uint64_t now_ns, struct weir_verdict *verdicts);
uint8_t weir_pipeline_offered_port(const struct rte_mbuf *m);

// Take the packets that the last burst made in addition to its input (the other pieces of
// fragmented packets), and their verdicts (FORWARD). The caller then owns the packets; the arrays
// are valid until the next burst. Returns the number of packets. Call after each burst: the next
// burst frees packets that were not taken.
uint16_t weir_pipeline_extra(struct weir_pipeline *pipeline, struct rte_mbuf ***ret_pkts,
	const struct weir_verdict **ret_verdicts);

// Call if packet m could not be delivered. m is a packet of the last burst or one of its extra
// packets. Counts the packet as dropped for `reason`. Subtracts a forwarded packet from the packets
// and bytes of its service and backend, and adds the packet to their drops. verdict: verdict of the
// packet. Does nothing for DROP, or for a reply that is already counted as dropped. Call before the
// next call to weir_pipeline_maintain.
//
// Counters of services and backends are visible to readers immediately. Therefore a reader may see
// that a packet is counted as forwarded, and a few microseconds later as dropped.
void weir_pipeline_undelivered(struct weir_pipeline *pipeline, const struct rte_mbuf *m,
	const struct weir_verdict *verdict, enum weir_drop_reason reason);

// Add the cycles of each stage to `trace` from now on (trace.h); NULL = stop. For weir-bench.
struct weir_trace;
void weir_pipeline_trace(struct weir_pipeline *pipeline, struct weir_trace *trace);

// Between weir_pipeline_online and weir_pipeline_offline, grace periods wait for this worker
// (grace.h). weir_pipeline_online and weir_pipeline_settle adopt all published changes, without a
// limit. Call weir_pipeline_online before the first iteration.
void weir_pipeline_online(struct weir_pipeline *pipeline);
void weir_pipeline_offline(struct weir_pipeline *pipeline);
void weir_pipeline_settle(struct weir_pipeline *pipeline);

// Report a quiescent state: this worker uses no pointer into a table. Call once per iteration,
// after the last burst.
void weir_pipeline_quiescent(struct weir_pipeline *pipeline);

// Maintenance between bursts, with bounded work per call: adopts published changes, expires flows,
// slots of shared limits and affinity entries, and publishes counters and gauges. Call once per
// iteration of the poll loop. Returns true if more work is due: call again soon, do not sleep.
bool weir_pipeline_maintain(struct weir_pipeline *pipeline, uint64_t now_ns);
