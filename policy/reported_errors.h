// SPDX-License-Identifier: BSD-3-Clause
//
// Reported errors of one backend: errors inside established connections, which a balancer cannot
// detect. If reported errors were ignored, a backend that fails fast would seem fast and idle. A
// reported error counts like an error detected by a worker (recent_errors.h): as an active flow for
// the length of a window.
//
// The errors of a report have full weight until the next report is expected. After that, their
// weight decreases with a time constant of window_ns.
//
// Called by weir-control and by the simulator.
//
// Threads: a struct belongs to one thread. The caller passes the time.
#pragma once

#include <stdint.h>

struct weir_reported_errors { // initialize to zero
	double errors; // number of errors, within about a window
	double requests;
	uint64_t last_ns; // time of the newest report; 0 = none
	uint64_t hold_ns; // how long the newest report has full weight
};

// Add a report. The rates are averages since the previous report. requests_per_second includes
// failed requests; 0 = unknown. Both rates are finite and not negative. window_ns > 0.
void weir_reported_errors_add(struct weir_reported_errors *reported, double requests_per_second,
	double errors_per_second, uint64_t window_ns, uint64_t now_ns);

// Returns the errors as a number of active flows, for each of `sharers` (> 0) workers that share
// the backend. At least 1 while the weighted number of errors is 0.5 or more.
uint32_t weir_reported_errors_active(const struct weir_reported_errors *reported, uint32_t sharers,
	uint64_t window_ns, uint64_t now_ns);

// Returns the time to add to the predicted cost of a flow: the share of failed requests times
// the window.
uint64_t weir_reported_errors_cost_ns(
	const struct weir_reported_errors *reported, uint64_t window_ns, uint64_t now_ns);
