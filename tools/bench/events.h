// SPDX-License-Identifier: BSD-3-Clause
//
// Events: hardware counters of the CPU (cache lines fetched, TLB misses, instructions), if the
// kernel and the hypervisor permit their use. Called by run.c and measure.c.
//
// Threads: counts events of the thread that opened the counters, in user space only.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// The events to count. X(NAME, "name", type and config of the event for perf_event_open)
#define WEIR_BENCH_EVENTS(X) \
	X(INSTRUCTIONS, "instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS) \
	X(BRANCH_MISSES, "branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES) \
	X(L1_MISSES, "l1-read-misses", PERF_TYPE_HW_CACHE, \
		PERF_COUNT_HW_CACHE_L1D | PERF_COUNT_HW_CACHE_OP_READ << 8 | \
			PERF_COUNT_HW_CACHE_RESULT_MISS << 16) \
	X(LLC_READS, "llc-reads", PERF_TYPE_HW_CACHE, \
		PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 | \
			PERF_COUNT_HW_CACHE_RESULT_ACCESS << 16) \
	X(LLC_MISSES, "llc-read-misses", PERF_TYPE_HW_CACHE, \
		PERF_COUNT_HW_CACHE_LL | PERF_COUNT_HW_CACHE_OP_READ << 8 | \
			PERF_COUNT_HW_CACHE_RESULT_MISS << 16) \
	X(TLB_MISSES, "dtlb-read-misses", PERF_TYPE_HW_CACHE, \
		PERF_COUNT_HW_CACHE_DTLB | PERF_COUNT_HW_CACHE_OP_READ << 8 | \
			PERF_COUNT_HW_CACHE_RESULT_MISS << 16)

enum weir_bench_event {
#define X(name, key, type, config) WEIR_BENCH_EVENT_##name,
	WEIR_BENCH_EVENTS(X)
#undef X
		WEIR_BENCH_EVENT_COUNT,
};

struct weir_bench_events {
	int fd[WEIR_BENCH_EVENT_COUNT]; // -1 = not available on this machine
	bool any; // at least one event is available
};

void weir_bench_events_open(struct weir_bench_events *events);
void weir_bench_events_close(struct weir_bench_events *events);
// Start or stop counting. The counts of all periods are added up.
void weir_bench_events_start(const struct weir_bench_events *events);
void weir_bench_events_stop(const struct weir_bench_events *events);
// Read a counter. Returns false if the event is not available, or was never counted. The count is
// an estimate if there are more events than hardware counters.
bool weir_bench_events_read(
	const struct weir_bench_events *events, enum weir_bench_event event, uint64_t *ret);
const char *weir_bench_event_name(enum weir_bench_event event);

// Opens a counter for any perf type and configuration. The counter is stopped. Returns its file
// descriptor or -1.
int weir_bench_event_open(uint32_t type, uint64_t config);
