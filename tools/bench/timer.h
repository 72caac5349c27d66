// SPDX-License-Identifier: BSD-3-Clause
//
// Timer: measures the duration of a piece of code, in ticks of the TSC. The first reading waits for
// all earlier instructions. The second reading waits for the measured instructions, but not until
// their stores have reached the cache.
#pragma once

#include <stdint.h>

#include <rte_cycles.h>

static inline uint64_t weir_bench_timer_start(void) {
#ifdef __x86_64__
	uint64_t now;

	__builtin_ia32_lfence();
	now = __builtin_ia32_rdtsc();
	__builtin_ia32_lfence();
	return now;
#else
	return rte_rdtsc_precise();
#endif
}

static inline uint64_t weir_bench_timer_end(void) {
#ifdef __x86_64__
	unsigned int cpu;
	uint64_t now = __builtin_ia32_rdtscp(&cpu);

	__builtin_ia32_lfence();
	return now;
#else
	return rte_rdtsc_precise();
#endif
}

// Runs a loop without memory accesses. Only interrupts, the scheduler or the hypervisor can delay
// the loop. An iteration takes about two CPU cycles.
static inline void weir_bench_timer_spin(uint32_t turns) {
	for (uint32_t i = 0; i < turns;) {
		i++; // each instruction depends on the previous instruction
		__asm__ volatile("" : "+r"(i));
	}
}

// Returns the cost of two readings with no code between them, as the median of many measurements.
uint32_t weir_bench_timer_cost(void);
