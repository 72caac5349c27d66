// SPDX-License-Identifier: BSD-3-Clause
//
// Balanced weights: a controller that equalises the utilization of a service's backends. In small
// periodic steps it corrects each configured weight until the backend's utilization is the mean of
// all backends. Weights from capability (capability.h) reflect the cost of a request on a backend,
// but not the requests of clients that use only some of the backends, nor clients with unequal
// numbers of requests. Balanced weights reflect both effects, because the controller measures the
// resulting utilization.
//
// Source: Dropbox's Robinhood (2024), which corrects weights by the distance from the mean.
//
// The correction is the logarithm of a factor. It grows by gain times the relative distance, by at
// most the gain per second: after a sudden change of the load, the distance falls by 1/e in 1/gain
// seconds, if the load follows the weights. Utilization is smoothed over a shorter time, so that
// overshoot is negligible.
//
// Called by weir-control and by the simulator.
//
// Threads: pure. Time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_balanced_settings {
	double gain; // per second; below 0.5
	double most; // a factor is between 1 / most and this; > 1
	double penalty; // per error, as in capability.h: without a penalty, a failing backend seems
			// idle
	uint64_t smoothing_ns; // time constant of the averages of utilization
	uint64_t fresh_ns; // maximum age of a report that is used; without a newer report the
			   // correction stays
	uint64_t expiration_ns; // age of the last report after which the correction fades
};

// The defaults: 0.1, 10, 1, 5 s, 10 s, 180 s.
struct weir_balanced_settings weir_balanced_defaults(void);

// The load that a backend reports: the larger of its CPU utilization, and its requests in progress
// as a share of its limit (0 = no limit).
double weir_balanced_utilization(double cpu, double active, double most_active);

// Load state of one backend.
struct weir_balanced_load { // zeroed at first
	double utilization; // smoothed; with the penalty
	uint64_t last_ns;
	bool known;
};

// Add a report. Rates as in struct weir_capability_report; all finite and not negative.
void weir_balanced_report(struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, double utilization,
	double requests_per_second, double errors_per_second, uint64_t now_ns);

#define WEIR_BALANCED_HOLD (-1.0) // no recent utilization: the correction stays
#define WEIR_BALANCED_UNKNOWN (-2.0) // no utilization: the correction fades

// The current utilization, or WEIR_BALANCED_HOLD or WEIR_BALANCED_UNKNOWN.
double weir_balanced_read(const struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, uint64_t now_ns);

// One step: correct n backends by their utilizations, elapsed_ns after the previous step. Returns
// whether a correction remains: if not, the configured weights apply.
bool weir_balanced_step(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n, uint64_t elapsed_ns);

// The corrected weight; > 0 if the configured weight is above 0.
double weir_balanced_weight(double configured, double correction);
