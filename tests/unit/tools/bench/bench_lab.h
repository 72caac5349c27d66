// SPDX-License-Identifier: BSD-3-Clause
//
// A small benchmark for the tests: options from a command line, tables, memory, and an engine.
#pragma once

#include "measure.h"

struct bench_lab {
	struct weir_bench_options options;
	struct weir_bench_balancer balancer;
	struct weir_bench_heap heap;
	struct weir_bench_engine engine;
};

// Group set-up: start DPDK, without huge pages, and the heap that all tests share.
int bench_lab_eal(void **state);
// Parses a command line with single spaces between the arguments. Returns the result of the parser.
int bench_lab_options(const char *line, struct weir_bench_options *ret, char *why);
// Sets up the tables only, without DPDK. The options must be valid.
void bench_lab_tables(struct bench_lab *lab, const char *line);
// Sets up everything, and fills the flow table.
void bench_lab_open(struct bench_lab *lab, const char *line);
void bench_lab_close(struct bench_lab *lab);
