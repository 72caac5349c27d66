// SPDX-License-Identifier: BSD-3-Clause
//
// Ensures that a check via the data path covers the VIPs: the verdict becomes PASSING only after a
// check of each VIP has passed. A VIP whose checks have no result is left out while the backend is
// unchecked. If there are more VIPs than `rise`, additional checks follow quickly. The rate of
// additional checks is limited to WEIR_HEALTH_COVER_PER_S per second for all backends together,
// because a service has up to 256 VIPs, and thousands of backends can be new at the same time.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// With simulated servers, 2,000 tcp checks a second take about 20 % of a CPU.
#define WEIR_HEALTH_COVER_PER_S 2000u

struct weir_health_cover { // zeroed: no VIP is covered
	// Number of passed checks and of left-out VIPs since the verdict was last FAILING, the
	// server restarted, or the target was set. Both advance the check to the next VIP, so they
	// cover different VIPs until all VIPs are covered. A failed check that does not set the
	// verdict to FAILING does not reset this number.
	uint32_t vips;
	bool is_open; // `rise` checks in a row passed, but `vips` is below the number of VIPs
};

// Sets is_open. open: number of checks of all backends whose is_open is true.
static inline void weir_health_cover_open(
	struct weir_health_cover *cover, bool is_open, uint32_t *open) {
	*open += (uint32_t)is_open - (uint32_t)cover->is_open;
	cover->is_open = is_open;
}

// Returns the time to the next check of a backend while is_open is true: quick_ms, or more if
// is_open is true for many checks, but at most interval_ms. open: number of these checks.
static inline uint32_t weir_health_cover_ms(
	uint32_t open, uint32_t quick_ms, uint32_t interval_ms) {
	const uint64_t fair_ms = (uint64_t)open * 1000 / WEIR_HEALTH_COVER_PER_S;
	const uint64_t ms = fair_ms > quick_ms ? fair_ms : quick_ms;

	return ms < interval_ms ? (uint32_t)ms : interval_ms;
}
