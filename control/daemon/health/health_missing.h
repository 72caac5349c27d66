// SPDX-License-Identifier: BSD-3-Clause
//
// Probes of a check that had no result, because they could not run on this host. Via the data path
// those of one VIP count, while probes of others may have results.
//
// Threads: one, that of the loop.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "health_probe.h"

struct weir_health_missing { // zeroed: none
	uint32_t count; // in a row, up to the last one of that VIP
	uint32_t vip; // its number; 0 without VIPs
	uint64_t since_ns; // if there are any: end of the last one with a result, or of the first
	bool no_result; // the detail of the check is that of such a probe
};

// Whether the detail stays after a probe of this VIP: one that passed must not hide that those of
// another VIP have no result.
static inline bool weir_health_missing_stays(
	const struct weir_health_missing *missing, enum weir_probe_outcome outcome, uint32_t vip) {
	return outcome == WEIR_PROBE_PASSED && missing->no_result && vip != missing->vip;
}

// A probe of this VIP ended. before_ns: end of the one before it, if there was one.
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
