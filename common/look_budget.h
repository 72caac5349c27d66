// SPDX-License-Identifier: BSD-3-Clause
//
// Look budget: limits the CPU time of repeated scans ("looks"), such as dumps of all sockets, to a
// share of one CPU. spent_ns increases by the CPU time of each scan, and decreases at the permitted
// rate. A scan is permitted while spent_ns is less than burst_ns.
//
// Threads: one. Uses no clock.
#pragma once

#include <stdint.h>

struct weir_look_budget {
	uint64_t share; // the scans may use 1 / share of a CPU: 10 = a tenth of a CPU
	uint64_t burst_ns; // CPU time that scans may use without a delay
	// CPU time used so far minus CPU time permitted so far, at least 0; initially 0
	uint64_t spent_ns;
	uint64_t paid_ns; // time when spent_ns was last reduced; initially 0
};

// Charges the budget for a scan. cpu_ns: the CPU time that the scan has used (weir_thread_cpu_ns).
static inline void weir_look_budget_spend(struct weir_look_budget *budget, uint64_t cpu_ns) {
	budget->spent_ns += cpu_ns;
}

// Returns the time in milliseconds until the next scan is permitted; 0 = a scan is permitted now.
// Also updates the budget. now_ns: CLOCK_MONOTONIC.
static inline uint64_t weir_look_budget_rest_ms(struct weir_look_budget *budget, uint64_t now_ns) {
	uint64_t paid_ns = (now_ns - budget->paid_ns) / budget->share;

	budget->spent_ns = budget->spent_ns > paid_ns ? budget->spent_ns - paid_ns : 0;
	budget->paid_ns = now_ns;
	if (budget->spent_ns < budget->burst_ns) {
		return 0;
	}
	return (budget->spent_ns - budget->burst_ns) * budget->share / 1000000 + 1;
}
