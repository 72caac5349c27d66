// SPDX-License-Identifier: BSD-3-Clause
//
// Counters: the only list of the workers' counters. This list generates the structs in the segment,
// the counters of the pipeline, the sums and JSON of control, the rates of weirctl, and the names,
// units and help texts of metrics. A unit test compares the tables in docs/guide/troubleshooting.md
// with the list.
//
// A counter only increases, a gauge can also decrease. weirctl shows rates of counters, and only
// metrics of counters have the suffix _total. The order of the counters is part of the segment's
// ABI.
#pragma once

// X(field, UNIT, "metric", "Help text.")
// field: name in the segment, in JSON and in weirctl. metric: name of the metric, without prefix
// and _total; it ends with the base unit. UNIT: one of WEIR_COUNTER_UNITS.

// X(NAME, "base unit"): the base unit of metrics. TSC cycles are divided by tsc_hz to get seconds.
#define WEIR_COUNTER_UNITS(X) \
	X(PACKETS, "packets") \
	X(BYTES, "bytes") \
	X(FLOWS, "flows") \
	X(BUCKETS, "buckets") \
	X(ITERATIONS, "iterations") \
	X(CYCLES, "seconds")

// Counters per worker that the pipeline sums over bursts and publishes once per iteration.
#define WEIR_PIPELINE_COUNTERS(X) \
	WEIR_PIPELINE_COUNTERS_5(X) \
	WEIR_PIPELINE_COUNTERS_6(X)

// Counters of the pipeline that have existed since ABI 5.
#define WEIR_PIPELINE_COUNTERS_5(X) \
	X(rx_packets, PACKETS, "receive_packets", "Packets received.") \
	X(rx_bytes, BYTES, "receive_bytes", \
		"Bytes received, with the Ethernet header, without the FCS.") \
	X(forwarded, PACKETS, "forwarded_packets", "Packets forwarded to a backend.") \
	X(replied, PACKETS, "replied_packets", \
		"Echo replies and challenge ACKs sent; RSTs and ICMP errors count as dropped.") \
	X(to_kernel, PACKETS, "kernel_packets", "Packets punted to the kernel.") \
	X(dropped, PACKETS, "dropped_packets", "Packets dropped, for any reason.") \
	X(flow_hits, PACKETS, "flow_hit_packets", \
		"Packets that matched a flow in the flow table.") \
	X(flow_new, FLOWS, "new_flows", "Flows inserted into the flow table.") \
	X(flow_untracked, PACKETS, "untracked_packets", \
		"Packets without an entry (table full); the Maglev fallback selects a backend.") \
	X(flow_expired, FLOWS, "expired_flows", "Flows ended by a timeout.")

// Counters of the pipeline that have existed since ABI 6. In the segment, these counters follow all
// other counters, in space that was reserved in ABI 5.
#define WEIR_PIPELINE_COUNTERS_6(X) \
	X(fragmented, PACKETS, "fragmented_packets", \
		"Packets above the path MTU sent in fragments (IPv4 without DF, small IPv6).") \
	X(fragments_made, PACKETS, "made_fragment_packets", \
		"Fragments sent in addition to the first fragment of each packet.") \
	X(affinity_known, FLOWS, "known_source_flows", \
		"New flows sent to the backend in the affinity entry of their source.") \
	X(affinity_full, FLOWS, "unremembered_source_flows", \
		"New flows whose source got no affinity entry: the affinity table was full.") \
	X(datagrams, PACKETS, "datagram_packets", \
		"Datagrams of services without UDP flows: a backend was chosen for each.")

// Counters per worker that are written to the segment directly.
#define WEIR_DIRECT_COUNTERS(X) \
	WEIR_DIRECT_COUNTERS_5(X) \
	WEIR_DIRECT_COUNTERS_6(X)

#define WEIR_DIRECT_COUNTERS_5(X) \
	X(flow_half_open_evicted, FLOWS, "evicted_half_open_flows", \
		"Half-open flows evicted by newer flows.") \
	X(tx_packets, PACKETS, "transmit_packets", "Packets sent.") \
	X(tx_bytes, BYTES, "transmit_bytes", "Bytes sent, with the Ethernet header.") \
	X(handed_over, PACKETS, "handed_over_packets", \
		"Packets passed to the worker that owns their flow.") \
	X(loops, ITERATIONS, "poll_iterations", "Iterations of the poll loop.") \
	X(busy_cycles, CYCLES, "busy_seconds", \
		"Time spent in poll iterations that received packets.") \
	X(idle_cycles, CYCLES, "idle_seconds", \
		"Time spent in poll iterations that received no packets.")

#define WEIR_DIRECT_COUNTERS_6(X) \
	X(flow_idle_evicted, FLOWS, "evicted_idle_flows", \
		"Idle flows evicted by newer flows because the table was full.")

#define WEIR_WORKER_COUNTERS(X) \
	WEIR_PIPELINE_COUNTERS(X) \
	WEIR_DIRECT_COUNTERS(X)

#define WEIR_WORKER_GAUGES(X) \
	X(flows, FLOWS, "flows", "Flows in the flow table.") \
	X(flows_half_open, FLOWS, "half_open_flows", "Half-open flows in the flow table.")

// Counters per worker and service, and per worker and backend. Gauges and the counters up to
// timed_out share the first cache line, which is the only cache line accessed for most packets
// and flows.
#define WEIR_SHARE_GAUGES(X) \
	X(active_flows, FLOWS, "active_flows", "Flows started and not yet ended.") \
	X(open_flows, FLOWS, "open_flows", \
		"Flows without a FIN or RST so far; selection policies use this as load.")

#define WEIR_SHARE_COUNTERS(X) \
	X(packets, PACKETS, "forwarded_packets", "Packets forwarded.") \
	X(bytes, BYTES, "forwarded_bytes", "IP bytes forwarded, without outer headers.") \
	X(new_flows, FLOWS, "new_flows", \
		"Flows started, and datagrams of services without UDP flows.") \
	X(completed, FLOWS, "completed_flows", "Flows ended by FIN.") \
	X(refused, FLOWS, "refused_flows", "Flows ended by an RST from the client.") \
	X(timed_out, FLOWS, "timed_out_flows", "Flows ended by a timeout.") \
	X(dropped, PACKETS, "dropped_packets", "Packets dropped, for any reason.") \
	X(errors, FLOWS, "failed_flows", \
		"TCP flows counted as errors: still half-open when they timed out.") \
	X(spilled, FLOWS, "spilled_flows", \
		"New flows sent to a backend that was already at max_active_flows.") \
	X(rejected, FLOWS, "rejected_flows", \
		"New flows rejected because every backend was at max_active_flows.") \
	X(rehashed, FLOWS, "rehashed_flows", \
		"Flows moved because their backend was down or removed, or closed to new flows.") \
	X(reset, FLOWS, "reset_flows", "Flows ended with an RST because their backend was down.")

// Counters per worker for the moves of flow buckets between workers (WEIR_MESSAGE_STEAL).
#define WEIR_STEAL_COUNTERS(X) \
	X(buckets_taken, BUCKETS, "taken_buckets", \
		"Buckets of flows taken over from other workers.") \
	X(buckets_given, BUCKETS, "given_buckets", \
		"Buckets of flows handed over to other workers.") \
	X(buckets_urgent, BUCKETS, "urgent_buckets", \
		"Buckets requested immediately because their worker's ring was filling up.") \
	X(held_packets, PACKETS, "held_packets", \
		"Packets queued while their bucket of flows moved to another worker.") \
	X(move_cycles, CYCLES, "move_seconds", \
		"Time spent moving buckets of flows to and from other workers.")

// Counters per port, from its device and from the kernel. A frame that reached no worker is counted
// in exactly one of imissed, ierrors, rx_nombuf, xdp_ring_full and frame_too_long.
#define WEIR_PORT_COUNTERS(X) \
	X(ipackets, PACKETS, "port_receive_packets", "Packets that the device received.") \
	X(ibytes, BYTES, "port_receive_bytes", "Bytes that the device received.") \
	X(opackets, PACKETS, "port_transmit_packets", "Packets that the device sent.") \
	X(obytes, BYTES, "port_transmit_bytes", "Bytes that the device sent.") \
	X(imissed, PACKETS, "port_missed_packets", \
		"Packets lost because no receive buffer was free: the workers were too slow.") \
	X(ierrors, PACKETS, "port_receive_error_packets", "Packets received with errors.") \
	X(oerrors, PACKETS, "port_transmit_error_packets", \
		"Packets that the device accepted but could not send.") \
	X(rx_nombuf, PACKETS, "port_no_buffer_packets", \
		"Packets lost because the pool of packet buffers was empty.") \
	X(xdp_ring_full, PACKETS, "port_xdp_ring_full_packets", \
		"AF_XDP: packets lost because the receive ring was full.") \
	X(xdp_fill_empty, PACKETS, "port_xdp_fill_empty_packets", \
		"AF_XDP: how often the fill ring was empty; imissed counts the lost packets.") \
	X(xdp_invalid, PACKETS, "port_xdp_invalid_packets", \
		"AF_XDP: invalid descriptors in the fill ring or transmit ring.") \
	X(frame_too_long, PACKETS, "port_too_long_packets", \
		"AF_XDP: frames longer than packet buffers; other devices count them in ierrors.")

// All counters and gauges of a worker (WEIR_WORKER_FIGURES), and of a service or backend
// (WEIR_SHARE_FIGURES).
#define WEIR_WORKER_FIGURES(X) \
	WEIR_WORKER_COUNTERS(X) \
	WEIR_WORKER_GAUGES(X)
#define WEIR_SHARE_FIGURES(X) \
	WEIR_SHARE_GAUGES(X) \
	WEIR_SHARE_COUNTERS(X)
