// SPDX-License-Identifier: BSD-3-Clause
//
// Panic: so few backends are healthy that the health checks are probably wrong. If the share of
// healthy backends is equal to the threshold, there is no panic.
//
// Threads: a pure function.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// Returns whether `healthy` is less than `percent` percent of `all`. With 0 percent: never.
static inline bool weir_panic(uint32_t healthy, uint32_t all, uint32_t percent) {
	return 100 * (uint64_t)healthy < (uint64_t)percent * all;
}
