// SPDX-License-Identifier: BSD-3-Clause
#include "departure.h"

#include <rte_ethdev.h>

static bool is_free(const struct weir_path *path, uint64_t offset) {
	int status = rte_eth_tx_descriptor_status(path->device, path->queue, (uint16_t)offset);

	return status == RTE_ETH_TX_DESC_DONE || status == RTE_ETH_TX_DESC_UNAVAIL;
}

// A driver reports the state of the descriptor at an offset from the next descriptor to fill. The
// next descriptor to fill is the oldest descriptor, so the newest descriptor has the highest
// offset. A packet uses at least one descriptor. Therefore the descriptor that is `since` below the
// highest offset belongs to packet `put` or to a newer packet.
//
// Some drivers deviate, so more descriptors are checked. If n packets wait, mlx5 and bnxt report
// the first n offsets as full. Intel's drivers check the next descriptor for which the device
// writes a status: this descriptor is up to WEIR_DEPARTURE_STEP away. If it is beyond the newest
// descriptor, it is one of the oldest descriptors, which is free.
bool weir_path_has_departed(const struct weir_path *path, uint64_t put) {
	uint64_t since = path->put - put;
	uint64_t last;

	if (since >= path->descriptors) {
		return true;
	}
	last = path->descriptors - 1 - since;
	return is_free(path, last) &&
	       is_free(path, last - RTE_MIN(last, (uint64_t)WEIR_DEPARTURE_STEP)) &&
	       is_free(path, RTE_MIN(since, last));
}

void weir_outlet_answer(struct weir_outlet *outlet) {
	uint32_t requested = __atomic_load_n(&outlet->requested, __ATOMIC_ACQUIRE);

	if (outlet->noted != requested) {
		outlet->noted = requested;
		outlet->noted_put = outlet->own->put;
	}
	if (weir_path_has_departed(outlet->own, outlet->noted_put)) {
		__atomic_store_n(&outlet->answered, requested, __ATOMIC_RELEASE);
	}
}
