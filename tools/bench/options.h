// SPDX-License-Identifier: BSD-3-Clause
//
// Options of weir-bench's command line. main.c reads them.
//
// Threads: one.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "forwarding_mode.h"
#include "order.h"
#include "policy.h"

// The values of --case. X(NAME, "name")
#define WEIR_BENCH_CASES(X) \
	X(ESTABLISHED, "established") X(NEW, "new") X(SYN_FLOOD, "syn-flood") X(MIXED, "mixed")
enum weir_bench_case {
#define X(name, key) WEIR_BENCH_CASE_##name,
	WEIR_BENCH_CASES(X)
#undef X
};

// The location of a packet's headers when the pipeline first reads them: warm = in the cache, cold
// = in memory.
#define WEIR_BENCH_HEADERS(X) X(WARM, "warm") X(COLD, "cold")
enum weir_bench_headers {
#define X(name, key) WEIR_BENCH_HEADERS_##name,
	WEIR_BENCH_HEADERS(X)
#undef X
};

enum weir_bench_pages {
	WEIR_BENCH_PAGES_ANY, // use 2 MiB pages if they are available
	WEIR_BENCH_PAGES_HUGE,
	WEIR_BENCH_PAGES_SMALL,
};

// The work of the second process (publisher.h).
enum weir_bench_publish {
	WEIR_BENCH_PUBLISH_SELECTIONS,
	WEIR_BENCH_PUBLISH_ROWS, // publishes the headers of a backend
	WEIR_BENCH_PUBLISH_BOTH,
	WEIR_BENCH_PUBLISH_SCRAPES, // reads all counters, as weir-control does for metrics
	WEIR_BENCH_PUBLISH_LISTS, // requests parts of the flow table
	WEIR_BENCH_PUBLISH_CAPTURES, // captures all packets and reads them
	WEIR_BENCH_PUBLISH_IDLE_CAPTURES, // runs a capture that matches no packet
};

struct weir_bench_options {
	enum weir_bench_case kind;
	enum weir_bench_order_kind order;
	enum weir_forwarding_mode forwarding;
	enum weir_bench_headers headers;
	enum weir_bench_pages pages;
	enum weir_policy policy;
	uint8_t family; // 4 or 6
	uint8_t protocol; // IPPROTO_TCP, IPPROTO_UDP
	bool vlan;
	// The flow memory is divided into buckets, as with several workers. The only flow table
	// owns all buckets.
	bool bucketed;
	bool json, help, version;
	uint32_t flows;
	uint32_t table_flows; // capacity of the table in flows of this family
	uint32_t packets_per_flow; // value of --packets-per-flow; 0 = not given
	uint32_t backends, services, slots;
	uint32_t packet_bytes;
	uint32_t burst, buffers;
	uint32_t publications; // publications per second; 0 = none
	enum weir_bench_publish publish; // what to publish or read
	uint32_t runs;
	uint32_t repeats; // repetitions of all runs; 0 = none
	uint32_t half_open_percent, syn_seen_ms, closing_ms;
	int core; // -1 = the last CPU that may be used
	uint64_t packets; // packets of a run
	uint64_t seed;
	double new_percent;
	double zipf_exponent;
	// Duration of a run, including the generation of packets; 0 = `packets` is the length.
	double seconds;
};

// Read the command line; omitted options get their defaults.
// Returns 0, or -EINVAL with one line in why.
int weir_bench_options_parse(
	int argc, char **argv, struct weir_bench_options *ret, char *why, size_t why_bytes);

// Returns the value of flow_table.flows_per_worker that gives a table room for table_flows flows of
// the family.
uint32_t weir_bench_flows_per_worker(const struct weir_bench_options *options);

// Writes the text of --help. Returns buffer, of WEIR_HELP_BYTES.
const char *weir_bench_help(char *buffer, size_t bytes);

const char *weir_bench_case_name(enum weir_bench_case kind);
const char *weir_bench_order_name(enum weir_bench_order_kind order);
const char *weir_bench_headers_name(enum weir_bench_headers headers);
