// SPDX-License-Identifier: BSD-3-Clause
//
// Run: the passes of a measurement, in this order. Called by main.c.
//
//   timed    Fills a new table, warms up, then does `runs` runs. Two kinds of measurements also do
//            `runs` base runs for comparison: in case syn-flood, base runs have only the steady
//            flows; with --publications, base runs have no publications.
//   counted  One more run, in which the CPU counts events, if it has counters for them.
//   traced   One more run, in which each stage of the pipeline is timed separately.
//   checked  Sends the packets of the warm-up and of all timed runs through a new table again, and
//            checks each packet.
//   repeated With --repeats: repeats the timed runs this many times. For each packet, the
//            pipeline's clock advances by the median cost of a packet, so that a burst does exactly
//            the same work in each repetition.
//
// Threads: one.
#pragma once

#include "events.h"
#include "measure.h"
#include "publisher.h"

struct weir_bench_series { // runs of one kind
	struct weir_bench_samples samples; // samples of all runs of this kind
	struct weir_bench_summary summary; // cycles per packet
	struct weir_bench_split split;
	double *medians; // [runs] median of each run, in cycles per packet
	double median_min, median_max;
	uint64_t packets;
	uint32_t slowest_cycles; // cycles of the slowest burst
};

// Increase of the worker's counters during the timed runs, without warm-up and base runs
struct weir_bench_tally {
	uint64_t packets, hits, started, untracked, evicted, expired;
};

struct weir_bench_repeated { // with --repeats: the lowest cost of each burst in all repetitions
	struct weir_bench_samples main, base;
	struct weir_bench_summary summary; // summary of main
	struct weir_bench_summary first; // summary of main in the first repetition
	struct weir_bench_split split, base_split;
	double slow_share; // share of bursts of main above 10 times the median
};

struct weir_bench_result {
	struct weir_bench_series main;
	struct weir_bench_series base;
	bool has_base;
	// Samples of the idle loop, which runs after each burst of `main` and `base`
	struct weir_bench_samples machine;
	struct weir_bench_summary machine_summary;
	struct weir_bench_repeated repeated;
	double slow_share; // share of bursts of `main` above 10 times the median
	// Estimated share of bursts that were slow because of interrupts, the scheduler or the
	// hypervisor
	double slow_machine_share;
	struct weir_bench_tally tally;
	uint64_t flows; // flows in the table at the start of the timed runs
	uint64_t moved; // steady flows whose first tuple was not inserted
	double publications; // measured publications per second; 0 = none
	double stage[WEIR_STAGE_COUNT]; // cycles per packet in each stage of the pipeline
	double stage_rest; // cycles per packet between the stages: counters, clock and tables
	double stage_idle; // cycles per packet for expiry and the quiescent report
	bool counted[WEIR_BENCH_EVENT_COUNT];
	double event[WEIR_BENCH_EVENT_COUNT]; // number of events per packet
	uint64_t verified; // number of verified packets
	uint64_t steady_checked; // case syn-flood: flows still in the table after the flood
};

// Run all passes of a measurement. publisher: used only if the options include publications.
// Returns 0, or negative errno with one line in why: -EBADMSG if packets were not as expected.
int weir_bench_run(struct weir_bench_engine *engine, const struct weir_bench_heap *heap,
	struct weir_bench_publisher *publisher, struct weir_bench_result *ret, char *why,
	size_t why_bytes);
void weir_bench_result_fini(struct weir_bench_result *result);
