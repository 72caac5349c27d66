// SPDX-License-Identifier: BSD-3-Clause
//
// Ring fill: returns the number of packets that wait in a ring between two workers. DPDK's
// rte_ring_count is not used: two workers write the indexes, and rte_ring_count reads them without
// atomic loads.
//
// Threads: any; the number may be outdated when the function returns.
#pragma once

#include <stdint.h>

#include <rte_ring.h>

static inline uint32_t weir_ring_fill(const struct rte_ring *ring) {
	uint32_t put = __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED);
	uint32_t taken = __atomic_load_n(&ring->cons.tail, __ATOMIC_RELAXED);
	uint32_t fill = (put - taken) & ring->mask;

	return fill < ring->capacity ? fill : ring->capacity;
}
