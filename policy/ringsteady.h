// SPDX-License-Identifier: BSD-3-Clause
//
// Ringsteady: places items on a circle, at the positions of the van der Corput sequence in base 2:
// the position of item i is the binary fraction with the bits of i in reverse order. For any number
// of items, neighbours are about equally far apart. An additional item splits one of the largest
// gaps and moves no other item.
//
// Threads: pure functions.
#pragma once

#include <stdint.h>

// Returns the position of item i, in units of 2^-32 of the circle.
static inline uint32_t weir_ringsteady_position(uint32_t i) {
	i = (i & 0x55555555u) << 1 | (i >> 1 & 0x55555555u);
	i = (i & 0x33333333u) << 2 | (i >> 2 & 0x33333333u);
	i = (i & 0x0f0f0f0fu) << 4 | (i >> 4 & 0x0f0f0f0fu);
	return __builtin_bswap32(i);
}

// Writes the items 0 .. count - 1 in the order of their positions, beginning with the first item at
// or after the position of item `start`. `start` may be count or more. Cost: O(count).
static inline void weir_ringsteady_order(uint32_t start, uint32_t count, uint32_t *ret_order) {
	uint32_t bits = count > 1 ? 32 - (uint32_t)__builtin_clz(count - 1) : 0;
	// The circle is divided into this many equal cells, each with at most one item.
	uint64_t places = 1ull << bits;
	uint64_t width = (1ull << 32) / places;
	uint64_t first = (weir_ringsteady_position(start) + width - 1) / width;
	uint32_t found = 0;

	for (uint64_t i = 0; i < places; i++) {
		uint64_t place = (first + i) & (places - 1);
		uint32_t item = weir_ringsteady_position((uint32_t)(place * width));

		if (item < count) {
			ret_order[found++] = item;
		}
	}
}
