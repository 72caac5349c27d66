// SPDX-License-Identifier: BSD-3-Clause
//
// Measure: runs bursts of generated packets through the pipeline, and times, traces or checks them.
// Called by main.c.
//
// One iteration of a worker is timed: weir_pipeline_process, weir_pipeline_maintain (expiry) and
// the quiescent report. Not timed: generating packets, `buffers` packets at a time, and writing the
// mbuf fields that a NIC's driver writes, right before the burst.
//
// The pipeline's clock advances only by the timed parts, as in a worker that is never idle; or by a
// fixed time for each packet (`pace`), so that all repetitions behave identically.
//
// Threads: one.
#pragma once

#include "balancer.h"
#include "events.h"
#include "packets.h"
#include "statistics.h"
#include "trace.h"
#include "traffic.h"

struct weir_bench_young_seen { // state of a flow in progress, case mixed
	uint16_t backend; // BACKEND_NONE = unknown
	bool established; // the flow was found in the table, and must be found in later packets
};

struct weir_bench_engine {
	const struct weir_bench_options *options;
	struct weir_bench_balancer *balancer;
	struct weir_bench_traffic traffic;
	struct weir_bench_tuples tuples;
	struct weir_bench_packets packets;
	struct rte_mempool *pool;
	struct rte_mbuf **buffers; // [options->buffers], in random order
	struct weir_bench_item *items; // item of each buffer
	uint16_t *backends; // backend of each steady flow, as first chosen; BACKEND_NONE = unknown
	struct weir_bench_young_seen *seen; // [WEIR_BENCH_YOUNG]
	uint32_t serial;
	uint32_t timer_cost;
	double ns_per_cycle;
	uint64_t now_ns; // the pipeline's clock
	double pace; // advance of the clock, in cycles per packet; 0 = as measured
	uint64_t given; // packets since the pipeline was started
	uint64_t refused; // steady flows that were not inserted at first
};

// options and balancer are borrowed. Returns 0 or negative errno with one line in why.
int weir_bench_engine_create(const struct weir_bench_options *options,
	struct weir_bench_balancer *balancer, const struct weir_bench_heap *heap,
	struct weir_bench_engine *ret, char *why, size_t why_bytes);
void weir_bench_engine_free(struct weir_bench_engine *engine);

// All functions below return 0, or negative errno with one line in why.

// Fill the fresh pipeline's table through the pipeline, checking each packet.
int weir_bench_fill(struct weir_bench_engine *engine, char *why, size_t why_bytes);

// The length of a pass. A timed pass records its number of packets, for the pass that checks them.
struct weir_bench_length {
	uint64_t packets; // rounded up to a multiple of the burst
	double seconds; // if above 0: replaces packets
};

struct weir_bench_pass {
	struct weir_bench_length length;
	bool alone; // steady flows only
	struct weir_bench_samples *samples; // one sample for each burst; NULL = not timed
	// Samples of a loop without work after each burst, recorded with the number of the burst's
	// packets.
	struct weir_bench_samples *machine; // NULL = none
	struct weir_trace *trace; // if set, the stages are traced: gets the cycles of the stages
	uint64_t rest_cycles; // if traced: cycles of weir_pipeline_process outside of its stages
	uint64_t idle_cycles; // if traced: cycles of expiry and quiescent report
	struct weir_bench_events *events; // if set, events are counted
	bool check; // each packet is checked
	uint64_t packets; // number of processed packets
};
int weir_bench_pass(struct weir_bench_engine *engine, struct weir_bench_pass *pass, char *why,
	size_t why_bytes);

// Check that every steady flow is still in the table with its backend, by one packet for each flow.
int weir_bench_check_steady(struct weir_bench_engine *engine, char *why, size_t why_bytes);
