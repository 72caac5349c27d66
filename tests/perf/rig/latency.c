// SPDX-License-Identifier: BSD-3-Clause
#include "latency.h"

#include <string.h>

void rig_latency_clear(struct rig_latency *latency) {
	memset(latency, 0, sizeof(*latency));
}

// Returns the largest value that belongs to a slot.
static uint64_t slot_end(uint32_t slot) {
	uint32_t shift;

	if (slot < (2u << RIG_LATENCY_BITS)) {
		return slot;
	}
	shift = (slot >> RIG_LATENCY_BITS) - 1;
	return ((uint64_t)(slot - (shift << RIG_LATENCY_BITS)) << shift) + ((1ull << shift) - 1);
}

uint64_t rig_latency_quantile(const struct rig_latency *latency, double share) {
	double wanted = share * (double)latency->count;
	uint64_t below = 0, end;

	if (latency->count == 0) {
		return 0;
	}
	for (uint32_t slot = 0; slot < RIG_LATENCY_SLOTS; slot++) {
		below += latency->slot[slot];
		if (below > 0 && (double)below >= wanted) {
			end = slot_end(slot);
			return end < latency->max ? end : latency->max;
		}
	}
	return latency->max;
}
