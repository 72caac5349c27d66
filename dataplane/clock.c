// SPDX-License-Identifier: BSD-3-Clause
#include "clock.h"

#include <time.h>

#define NS_PER_S 1000000000ull

static uint64_t monotonic_ns(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

void weir_clock_init(struct weir_clock *clock, uint64_t cycles, uint64_t hz) {
	clock->ns_per_cycle = (NS_PER_S << 32) / hz;
	clock->period_cycles = hz / (NS_PER_S / WEIR_CLOCK_PERIOD_NS);
	clock->base_cycles = cycles;
	clock->base_ns = monotonic_ns();
}

void weir_clock_correct(struct weir_clock *clock, uint64_t cycles) {
	uint64_t now_ns = monotonic_ns();
	uint64_t elapsed = cycles - clock->base_cycles;
	uint64_t last_ns = clock->base_ns;

	// The new base must not be before a time that was already read. The clock is read only
	// until one period after its base (weir_clock_due).
	if (elapsed > clock->period_cycles) {
		elapsed = clock->period_cycles;
	}
	last_ns += (elapsed * clock->ns_per_cycle) >> 32;
	clock->base_ns = now_ns > last_ns ? now_ns : last_ns;
	clock->base_cycles = cycles;
}
