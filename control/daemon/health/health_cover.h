// SPDX-License-Identifier: BSD-3-Clause
//
// Ensures that a check via the data path covers all VIPs: the verdict becomes PASSING only after a
// check of each VIP has passed. The checks beyond `rise` follow quickly. Their rate for all
// backends together is limited to WEIR_HEALTH_COVER_PER_S per second, because a service has up to
// 256 VIPs, and thousands of backends can be new at the same time.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

// With simulated servers, 2,000 tcp checks a second take about 20 % of a CPU.
#define WEIR_HEALTH_COVER_PER_S 2000u

struct weir_health_cover { // zeroed: no VIP has passed
	// passed checks since the verdict was last FAILING; a failed check of one VIP does not
	// reset this number
	uint32_t passes;
	bool is_open; // `rise` checks in a row passed, but VIPs are left
};

// Sets whether a check has VIPs left. open: number of such checks of all backends.
static inline void weir_health_cover_open(
	struct weir_health_cover *cover, bool is_open, uint32_t *open) {
	*open += (uint32_t)is_open - (uint32_t)cover->is_open;
	cover->is_open = is_open;
}

// Returns the time to the next check of a backend with VIPs left: quick_ms, or more if many
// backends have such checks, but at most interval_ms.
static inline uint32_t weir_health_cover_ms(
	uint32_t open, uint32_t quick_ms, uint32_t interval_ms) {
	const uint64_t fair_ms = (uint64_t)open * 1000 / WEIR_HEALTH_COVER_PER_S;
	const uint64_t ms = fair_ms > quick_ms ? fair_ms : quick_ms;

	return ms < interval_ms ? (uint32_t)ms : interval_ms;
}
