// SPDX-License-Identifier: BSD-3-Clause
//
// Clock: CLOCK_MONOTONIC in nanoseconds, computed from the cycle counter. Reading the clock costs a
// multiplication. A worker corrects the clock about every millisecond with clock_gettime
// (weir_clock_due). The correction needs no system call if the cycle counter is also the kernel's
// clock source.
//
// Threads: one clock per worker.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define WEIR_CLOCK_PERIOD_NS 1000000

struct weir_clock {
	uint64_t base_ns;
	uint64_t base_cycles;
	uint64_t period_cycles;
	uint64_t ns_per_cycle; // fixed point, 32 bits of fraction
};

// Initialize a clock. cycles: the current value of the cycle counter. hz: the frequency of the
// cycle counter, at least 1 MHz.
void weir_clock_init(struct weir_clock *clock, uint64_t cycles, uint64_t hz);
// Correct the clock with the value of CLOCK_MONOTONIC. cycles: the current value of the cycle
// counter. The clock does not go backwards, unless weir_clock_ns was called when weir_clock_due was
// true.
void weir_clock_correct(struct weir_clock *clock, uint64_t cycles);

// Returns whether the clock must be corrected, because its last correction is WEIR_CLOCK_PERIOD_NS
// ago. cycles: the current value of the cycle counter.
static inline bool weir_clock_due(const struct weir_clock *clock, uint64_t cycles) {
	return cycles - clock->base_cycles >= clock->period_cycles;
}

// Returns the time at `cycles`. cycles: not before the last correction, and less than 4 seconds
// after it. [worker]
static inline uint64_t weir_clock_ns(const struct weir_clock *clock, uint64_t cycles) {
	return clock->base_ns + (((cycles - clock->base_cycles) * clock->ns_per_cycle) >> 32);
}
