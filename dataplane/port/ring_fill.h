// SPDX-License-Identifier: BSD-3-Clause
//
// Ring fill: how many packets wait in a ring between two workers. DPDK's rte_ring_count reads the
// places that both write as if nobody did.
//
// Threads: any; the answer is one of a moment ago.
#pragma once

#include <stdint.h>

#include <rte_ring.h>

static inline uint32_t weir_ring_fill(const struct rte_ring *ring) {
	uint32_t put = __atomic_load_n(&ring->prod.tail, __ATOMIC_RELAXED);
	uint32_t taken = __atomic_load_n(&ring->cons.tail, __ATOMIC_RELAXED);
	uint32_t fill = (put - taken) & ring->mask;

	return fill < ring->capacity ? fill : ring->capacity;
}
