// SPDX-License-Identifier: BSD-3-Clause
//
// Traffic: selects the next packets. Called by measure.c and run.c.
//
// Steady flows are in the table before a run; their indexes are 0 .. steady - 1. Fresh flows start
// during the run. In case `mixed`, fresh flows also send data and end.
//
// Threads: one. Equal options give equal sequences of packets.
#pragma once

#include "options.h"
#include "order.h"
#include "tuples.h"

#define WEIR_BENCH_YOUNG 4096u // number of fresh flows in progress, case mixed
#define WEIR_BENCH_STEADY_NONE 0xffffffffu

// The description of one packet to generate.
struct weir_bench_item {
	uint64_t number; // number of the tuple
	uint32_t steady; // steady flow of the packet, or WEIR_BENCH_STEADY_NONE
	uint16_t young; // case mixed, not steady: index among the flows in progress
	uint8_t protocol;
	uint8_t flags; // TCP flags
};

struct weir_bench_young {
	uint64_t number;
	uint32_t left; // packets still to send; 0 = not started
};

// The new tuple of a steady flow whose first tuple was not inserted into the flow table.
struct weir_bench_moved {
	uint32_t steady;
	uint32_t extra; // number of the tuple: WEIR_BENCH_EXTRA + extra
};
#define WEIR_BENCH_EXTRA (1ull << 32)
#define WEIR_BENCH_FRESH (1ull << 33)

struct weir_bench_traffic {
	const struct weir_bench_options *options;
	struct weir_bench_order order;
	struct weir_bench_random random;
	uint64_t fresh; // number of fresh flows so far
	struct weir_bench_young *young; // [WEIR_BENCH_YOUNG], case mixed
	struct weir_bench_moved *moved; // sorted by steady
	uint32_t moved_count, moved_room;
	uint32_t steady; // number of steady flows
	double share; // share of packets of fresh flows, 0 .. 1
};

// Initialize the traffic that the options describe. options is borrowed. Returns 0, -ENOMEM.
int weir_bench_traffic_init(
	struct weir_bench_traffic *traffic, const struct weir_bench_options *options);
void weir_bench_traffic_fini(struct weir_bench_traffic *traffic);
// Restart the sequence of packets from its beginning. Tuples that weir_bench_traffic_move has
// assigned to steady flows are kept.
void weir_bench_traffic_restart(struct weir_bench_traffic *traffic);

// Selects the n packets of the next burst, and writes their descriptions to items[n]. alone: only
// packets of steady flows.
void weir_bench_traffic_burst(
	struct weir_bench_traffic *traffic, struct weir_bench_item *items, uint32_t n, bool alone);

// Returns a packet of a steady flow: the first packet (SYN), or a later packet.
struct weir_bench_item weir_bench_traffic_steady(
	const struct weir_bench_traffic *traffic, uint32_t steady, bool first);
// Returns the number of steady flows that the case requires in the table.
uint32_t weir_bench_traffic_flows(const struct weir_bench_traffic *traffic);

// Gives a steady flow another tuple. Call this function for flows in ascending order; it may be
// called again for the same flow. Returns 0, -ENOMEM.
int weir_bench_traffic_move(struct weir_bench_traffic *traffic, uint32_t steady);
