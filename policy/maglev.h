// SPDX-License-Identifier: BSD-3-Clause
//
// Weighted Maglev: a lookup table that gives each backend its share of slots and changes little
// when the backends change.
//
// Source: Eisenbud et al., "Maglev" (NSDI 2016), section 3.4. Weights are applied by the
// accumulator method: in each sweep over the backends, a backend gains its weight; when it has
// gained the largest weight, it claims one slot. Each backend's number of slots is exact to within
// one slot.
//
// Threads: any; the caller owns all memory.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WEIR_MAGLEV_EMPTY 0xffffu // value of every slot if there is no backend

struct weir_maglev_backend {
	uint32_t offset; // first slot of its permutation, < slots
	uint32_t skip; // step of its permutation, 1 .. slots - 1
	uint32_t weight; // 0 = the backend gets no slot
};

// Computes offset and skip as two independent hashes of a backend's identity.
void weir_maglev_permutation(
	uint64_t identity, uint32_t slots, uint32_t *ret_offset, uint32_t *ret_skip);

// Returns the size in bytes of the scratch memory that weir_maglev_build needs for n backends.
size_t weir_maglev_scratch_bytes(uint32_t n);

// Fill table[slots] with indexes into backends[n]. slots is prime and below 2^31, n <= 65534 and n
// <= slots. scratch: weir_maglev_scratch_bytes(n) bytes, 8-aligned. The function also needs 4 KiB
// of stack. Expected cost: O(slots log slots); 65,537 slots take about 0.8 ms with 100 backends,
// 1.5 ms with 10,000.
void weir_maglev_build(const struct weir_maglev_backend *backends, uint32_t n, uint16_t *table,
	uint32_t slots, void *scratch);

// The same as weir_maglev_build, but in steps: call weir_maglev_begin once, then weir_maglev_step
// until it returns 0. backends, table and scratch are used until the last step.
void weir_maglev_begin(const struct weir_maglev_backend *backends, uint32_t n, uint16_t *table,
	uint32_t slots, void *scratch);
// Fills up to `most` slots; the last slots (at most 1,024) are all filled in addition, in the call
// that returns 0. Returns the number of slots that are still empty, without the last slots.
uint32_t weir_maglev_step(void *scratch, uint32_t most);

bool weir_is_prime(uint32_t n);
