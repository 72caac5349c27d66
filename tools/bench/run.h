// SPDX-License-Identifier: BSD-3-Clause
//
// Run: the passes of a measurement, in their order. Called by main.c.
//
//   timed    fill a fresh table, warm up, then `runs` runs. With a base (case syn-flood: the steady
//            flows alone; --publications: without any) the same number of runs of the base.
//   counted  one more run, with the CPU's event counters, if available
//   traced   one more run, each stage timed by itself
//   checked  the packets of all timed runs again, on a new table, each one checked
//   repeated with --repeats: the same again, timed, that many times. The pipeline's clock advances
//            by the median cost of a packet, so that a burst does the same every time.
//
// Threads: one.
#pragma once

#include "events.h"
#include "measure.h"
#include "publisher.h"

struct weir_bench_series { // runs of one kind
	struct weir_bench_samples samples; // samples of all runs
	struct weir_bench_summary summary; // cycles per packet
	struct weir_bench_split split;
	double *medians; // [runs] cycles per packet, in order
	double median_min, median_max;
	uint64_t packets;
	uint32_t slowest_cycles; // cycles of the slowest burst
};

// Increase of the worker's counters during the timed runs, without the runs of the base
struct weir_bench_tally {
	uint64_t packets, hits, started, untracked, evicted, expired;
};

struct weir_bench_repeated { // --repeats: the lowest cost of each burst
	struct weir_bench_samples main, base;
	struct weir_bench_summary summary; // summary of main
	struct weir_bench_summary first; // samples of main in the first repetition
	struct weir_bench_split split, base_split;
	double slow_share; // share of bursts of main above 10 times the median
};

struct weir_bench_result {
	struct weir_bench_series main;
	struct weir_bench_series base;
	bool has_base;
	// Samples of a loop without work, during the runs of `main`
	struct weir_bench_samples machine;
	struct weir_bench_summary machine_summary;
	struct weir_bench_repeated repeated;
	double slow_share; // share of bursts of `main` above 10 times the median
	// Estimated share of bursts that were slow because of the machine, see run.c
	double slow_machine_share;
	struct weir_bench_tally tally;
	uint64_t flows; // flows in the table at the start of the timed runs
	uint64_t moved; // steady flows whose first tuple was not inserted
	double publications; // publications per second that were reached; 0 = none
	double stage[WEIR_STAGE_COUNT]; // cycles per packet
	double stage_rest; // counters, clock and tables: cycles between the stages
	double stage_idle; // expiry and quiescent report
	bool counted[WEIR_BENCH_EVENT_COUNT];
	double event[WEIR_BENCH_EVENT_COUNT]; // events per packet
	uint64_t verified; // number of verified packets
	uint64_t steady_checked; // case syn-flood: flows still in the table after the flood
};

// publisher is used if the options include publications.
// Returns 0, or negative errno with one line in why: -EBADMSG when packets were not as expected.
int weir_bench_run(struct weir_bench_engine *engine, const struct weir_bench_heap *heap,
	struct weir_bench_publisher *publisher, struct weir_bench_result *ret, char *why,
	size_t why_bytes);
void weir_bench_result_fini(struct weir_bench_result *result);
