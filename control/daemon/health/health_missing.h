// SPDX-License-Identifier: BSD-3-Clause
//
// Counts how many probes of a check in a row had no result, because this host could not run them.
// For a check via the data path, only the probes of one VIP are counted: the first VIP whose probe
// had no result. Results of probes of other VIPs do not reset the count.
//
// Threads: only the event loop's thread.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "health_probe.h"

struct weir_health_missing { // zeroed: no probe without a result
	// number of consecutive probes of `vip` without a result, including the last probe
	uint32_t count;
	uint32_t vip; // index of the VIP whose probes are counted; 0 if the check has no VIPs
	// If count > 0: time at which the probe before these probes ended; if there was none, time
	// at which the first of them ended.
	uint64_t since_ns;
	bool no_result; // the detail text of the check is about a probe without a result
};

// Returns whether the check keeps its detail text after a probe of this VIP: the probe passed, and
// the detail text gives the reason why probes of another VIP have no result.
static inline bool weir_health_missing_stays(
	const struct weir_health_missing *missing, enum weir_probe_outcome outcome, uint32_t vip) {
	return outcome == WEIR_PROBE_PASSED && missing->no_result && vip != missing->vip;
}

// Call when a probe of this VIP has ended. before_ns: time at which the previous probe ended; if
// there was none, time at which this probe ended.
static inline void weir_health_missing_end(struct weir_health_missing *missing,
	enum weir_probe_outcome outcome, uint32_t vip, uint64_t before_ns) {
	const bool is_missing = outcome == WEIR_PROBE_UNKNOWN;

	if (is_missing && missing->count == 0) {
		missing->since_ns = before_ns;
		missing->vip = vip;
	}
	if (vip == missing->vip) {
		missing->count = is_missing ? missing->count + 1 : 0;
	}
	missing->no_result = is_missing || weir_health_missing_stays(missing, outcome, vip);
}
