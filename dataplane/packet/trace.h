// SPDX-License-Identifier: BSD-3-Clause
//
// Trace: counts the cycles of each stage of the pipeline, for weir-bench. The pipelines of
// workers have no trace; the check for a trace then costs only one well-predicted branch per
// stage and burst.
//
// Threads: a trace belongs to the worker of its pipeline.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <rte_branch_prediction.h>
#include <rte_cycles.h>

// X(NAME, "name"), in the order of weir_pipeline_process
#define WEIR_STAGES(X) \
	X(PARSE, "parse") \
	X(LOOKUP, "flow-lookup") \
	X(OTHERS, "others") \
	X(BEGIN, "new-flows") \
	X(REWRITE, "rewrite")
enum weir_stage {
#define X(name, key) WEIR_STAGE_##name,
	WEIR_STAGES(X)
#undef X
		WEIR_STAGE_COUNT,
};

struct weir_trace {
	uint64_t cycles[WEIR_STAGE_COUNT]; // sum of TSC cycles
	uint64_t last;
};

// Reads the cycle counter after all earlier instructions and before all later instructions.
static inline uint64_t weir_trace_now(void) {
	uint64_t now;

#ifdef __x86_64__
	__builtin_ia32_lfence();
	now = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
#else
	now = rte_rdtsc_precise();
#endif
	return now;
}

// Record that a burst begins.
static inline void weir_trace_begin(struct weir_trace *trace) {
	if (unlikely(trace != NULL)) {
		trace->last = weir_trace_now();
	}
}

// Record that a stage has ended.
static inline void weir_trace_end(struct weir_trace *trace, enum weir_stage stage) {
	if (unlikely(trace != NULL)) {
		uint64_t now = weir_trace_now();

		trace->cycles[stage] += now - trace->last;
		trace->last = now;
	}
}
