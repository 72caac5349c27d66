// SPDX-License-Identifier: BSD-3-Clause
//
// Balanced weights: a controller that makes the utilization of a service's backends equal. It
// corrects each configured weight a little, again and again, until the backend's utilization is the
// mean of all. Weights from capability (capability.h) say what a request costs a backend; they
// cannot see the requests of clients that do not know all backends, nor uneven clients. This can,
// because it looks at the result.
//
// Source: Dropbox's Robinhood (2024), which corrects weights by the distance from the mean.
//
// The correction is the logarithm of a factor. It grows by gain times the relative distance, at
// most the gain per second, so that after a step the distance falls by 1/e in 1/gain seconds, if
// the load follows. Utilization is smoothed over less than that: no overshoot worth mentioning.
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
	double penalty; // of errors, as in capability.h: without it a backend that fails looks idle
	uint64_t smoothing_ns; // of the utilization
	uint64_t fresh_ns; // a report is not acted on any longer; the correction stays
	uint64_t expiration_ns; // after this the correction fades
};

// The defaults: 0.1, 10, 1, 5 s, 10 s, 180 s.
struct weir_balanced_settings weir_balanced_defaults(void);

// What a backend says of its load: the larger of how much of its CPU it uses, and of how many of
// the requests that it takes at most are in progress (0 = there is no such limit).
double weir_balanced_utilization(double cpu, double active, double most_active);

// What is known of the load of one backend.
struct weir_balanced_load { // zeroed at first
	double utilization; // smoothed; with the penalty
	uint64_t last_ns;
	bool known;
};

// A report. Rates as in struct weir_capability_report; all finite and not negative.
void weir_balanced_report(struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, double utilization,
	double requests_per_second, double errors_per_second, uint64_t now_ns);

#define WEIR_BALANCED_HOLD (-1.0) // the correction stays
#define WEIR_BALANCED_UNKNOWN (-2.0) // it fades

// The utilization now, or one of the above.
double weir_balanced_read(const struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, uint64_t now_ns);

// One step: corrections of n backends by their utilizations, elapsed_ns after the step before.
// Returns whether any is left: if not, the configured weights are in force.
bool weir_balanced_step(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n, uint64_t elapsed_ns);

// The corrected weight; > 0 if the configured one is.
double weir_balanced_weight(double configured, double correction);
