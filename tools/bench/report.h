// SPDX-License-Identifier: BSD-3-Clause
//
// Report: a measurement as a table or as one JSON object. Called by main.c.
//
// Threads: one.
#pragma once

#include <stdio.h>

#include "run.h"

struct weir_bench_report {
	const struct weir_bench_options *options;
	const struct weir_bench_result *result;
	const struct weir_bench_heap *heap;
	bool huge_segment; // the segment has 2 MiB pages
	uint64_t tsc_hz;
	uint32_t timer_cost;
	int core;
	uint64_t publish_us;
};

// Write a report. Returns 0, or -EIO (some output could not be written).
int weir_bench_report(FILE *out, const struct weir_bench_report *report);
