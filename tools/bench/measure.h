// SPDX-License-Identifier: BSD-3-Clause
//
// Measure: runs bursts of generated packets through the pipeline, and times, traces or checks them.
// Called by main.c and run.c.
//
// One iteration of a worker is timed: weir_pipeline_process, weir_pipeline_maintain (expiry) and
// the quiescent report. Two steps are not timed: packets are generated in advance, `buffers`
// packets at a time, and the mbuf fields that a driver would set are written just before each
// burst.
//
// The pipeline's clock advances only by the time that the timed steps take, as in a worker that is
// never idle. If `pace` is set, the clock advances by a fixed time for each packet instead, so that
// all repetitions do exactly the same work.
//
// Threads: one.
#pragma once

#include "balancer.h"
#include "events.h"
#include "packets.h"
#include "statistics.h"
#include "trace.h"
#include "traffic.h"

// Case mixed: results of the earlier packets of a flow in progress.
struct weir_bench_young_seen {
	uint16_t backend; // BACKEND_NONE = unknown
	bool established; // the flow was found in the table, so later packets must find it as well
};

struct weir_bench_engine {
	const struct weir_bench_options *options;
	struct weir_bench_balancer *balancer;
	struct weir_bench_traffic traffic;
	struct weir_bench_tuples tuples;
	struct weir_bench_packets packets;
	struct rte_mempool *pool;
	struct rte_mbuf **buffers; // [options->buffers], in random order
	struct weir_bench_item *items; // the item whose packet is in each buffer
	uint16_t *backends; // last backend of each steady flow; BACKEND_NONE = unknown
	struct weir_bench_young_seen *seen; // [WEIR_BENCH_YOUNG]
	uint32_t serial;
	uint32_t timer_cost;
	double ns_per_cycle;
	uint64_t now_ns; // the pipeline's clock
	double pace; // cycles by which each packet advances the clock; 0 = as measured
	uint64_t given; // number of packets since the pipeline was started
	uint64_t refused; // steady flows that were not inserted at first
};

// Prepare a measurement: create the traffic and the packet buffers. options and balancer are
// borrowed. heap: memory for the buffers. Returns 0 or negative errno with one line in why.
int weir_bench_engine_create(const struct weir_bench_options *options,
	struct weir_bench_balancer *balancer, const struct weir_bench_heap *heap,
	struct weir_bench_engine *ret, char *why, size_t why_bytes);
void weir_bench_engine_free(struct weir_bench_engine *engine);

// All functions below return 0, or negative errno with one line in why.

// Fills the flow table of a new pipeline by sending packets through the pipeline. Checks each
// packet.
int weir_bench_fill(struct weir_bench_engine *engine, char *why, size_t why_bytes);

// The length of a pass: a number of packets, or a time.
struct weir_bench_length {
	uint64_t packets; // rounded down to a multiple of the burst
	// if above 0: `packets` is ignored, and the pass ends with the first batch of `buffers`
	// packets that ends after this time
	double seconds;
};

// A pass does one of three things: if trace is set, it traces the bursts; otherwise, if samples is
// set, it times the bursts; otherwise it checks each packet.
struct weir_bench_pass {
	struct weir_bench_length length;
	bool alone; // the pass has only packets of steady flows
	struct weir_bench_samples *samples; // one sample for each burst; NULL = not timed
	// Samples of the idle loop, which runs after each burst; NULL = none. The loop accesses no
	// memory, so only interrupts, the scheduler or the hypervisor can delay it. `packets` of a
	// sample is the number of packets of the burst.
	struct weir_bench_samples *machine;
	struct weir_trace *trace; // if set, gets the cycles that each stage takes
	uint64_t rest_cycles; // with trace: cycles of weir_pipeline_process outside of its stages
	uint64_t idle_cycles; // with trace: cycles of expiry and quiescent report
	struct weir_bench_events *events; // if set, events are counted
	uint64_t packets; // number of processed packets
};
int weir_bench_pass(struct weir_bench_engine *engine, struct weir_bench_pass *pass, char *why,
	size_t why_bytes);

// Sends one packet for each steady flow. Checks that every steady flow is still in the table, with
// the same backend.
int weir_bench_check_steady(struct weir_bench_engine *engine, char *why, size_t why_bytes);
