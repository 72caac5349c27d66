// SPDX-License-Identifier: BSD-3-Clause
//
// Traffic: selects the next packets. Called by measure.c.
//
// Steady flows are in the table before a run, numbers 0 .. flows - 1. Fresh flows start during the
// run; in case `mixed`, fresh flows also send data and end.
//
// Threads: one. Equal options give equal packets, burst by burst.
#pragma once

#include "options.h"
#include "order.h"
#include "tuples.h"

#define WEIR_BENCH_YOUNG 4096u // fresh flows in progress at a time, case mixed
#define WEIR_BENCH_STEADY_NONE 0xffffffffu

// One packet to generate.
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

// A steady flow whose first tuple was not inserted into the flow table, and its new tuple.
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

// options is borrowed. Returns 0, -ENOMEM.
int weir_bench_traffic_init(
	struct weir_bench_traffic *traffic, const struct weir_bench_options *options);
void weir_bench_traffic_fini(struct weir_bench_traffic *traffic);
// Restart the sequence. Replaced tuples are kept.
void weir_bench_traffic_restart(struct weir_bench_traffic *traffic);

// Select the next n packets, which are one burst. alone: steady flows only.
void weir_bench_traffic_burst(
	struct weir_bench_traffic *traffic, struct weir_bench_item *items, uint32_t n, bool alone);

// A packet of a steady flow: the first packet (SYN), or a later packet.
struct weir_bench_item weir_bench_traffic_steady(
	const struct weir_bench_traffic *traffic, uint32_t steady, bool first);
// The number of steady flows in the table when it is filled as the case requires.
uint32_t weir_bench_traffic_flows(const struct weir_bench_traffic *traffic);

// Give another tuple to a steady flow. Call this function in ascending order of flows; a flow may
// be repeated. Returns 0, -ENOMEM.
int weir_bench_traffic_move(struct weir_bench_traffic *traffic, uint32_t steady);
