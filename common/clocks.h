// SPDX-License-Identifier: BSD-3-Clause
//
// Clocks: reads the kernel's clocks as integers, in nanoseconds or milliseconds. The packet path
// uses dataplane/clock.h instead.
//
// Threads: any. Async-signal-safe.
#pragma once

#include <stdint.h>
#include <time.h>

static inline uint64_t weir_clock_read_ns(clockid_t clock) {
	struct timespec now = {0};

	clock_gettime(clock, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

// Returns CLOCK_MONOTONIC: the time since the host's start, without the time that the host was
// suspended.
static inline uint64_t weir_monotonic_ns(void) {
	return weir_clock_read_ns(CLOCK_MONOTONIC);
}

static inline uint64_t weir_monotonic_ms(void) {
	return weir_monotonic_ns() / 1000000;
}

// Returns the milliseconds since 1970 (CLOCK_REALTIME). An administrator or NTP can set this clock
// back.
static inline uint64_t weir_wall_ms(void) {
	return weir_clock_read_ns(CLOCK_REALTIME) / 1000000;
}

// Returns the CPU time that the calling thread has used.
static inline uint64_t weir_thread_cpu_ns(void) {
	return weir_clock_read_ns(CLOCK_THREAD_CPUTIME_ID);
}
