// SPDX-License-Identifier: BSD-3-Clause
//
// Balanced weights: a controller that equalizes the utilization of a service's backends. In small
// periodic steps it corrects each configured weight until the utilization of the backend is equal
// to the mean of all backends. Weights from capability (capability.h) reflect the cost of a request
// on a backend. Such weights are wrong if some clients use only some of the backends, or if clients
// send unequal numbers of requests. Balanced weights also work for such clients, because the
// controller measures the resulting utilization.
//
// Source: Dropbox's Robinhood (2024), which corrects weights by the distance from the mean.
//
// The configured weight of a backend is multiplied by exp(correction). In each second, the
// correction changes by the gain times the relative distance of the utilization from the mean, and
// by at most the gain. After a sudden change of the load, the distance falls to 1/e within 1/gain
// seconds, if the load follows the weights. Utilization is smoothed over a shorter time, so that
// overshoot is negligible.
//
// Called by weir-control and by the simulator.
//
// Threads: any, because there is no shared state. The caller passes the time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_balanced_settings {
	double gain; // per second; below 0.5
	double most; // maximum factor of a weight, > 1; the minimum is 1 / most
	// The penalty times the share of failed requests is added to the utilization: otherwise a
	// backend that fails fast would seem idle.
	double penalty;
	uint64_t smoothing_ns; // time constant of the averages of utilization
	// Maximum age of a report that is used. After this time without a report, the correction
	// does not follow the utilization.
	uint64_t fresh_ns;
	uint64_t expiration_ns; // after this time without a report the correction fades
};

// Returns the defaults: gain 0.1, most 10, penalty 1, smoothing 5 s, fresh 10 s, expiration 3 min.
struct weir_balanced_settings weir_balanced_defaults(void);

// Returns the utilization that results from a report: the CPU utilization, or the number of
// requests in progress divided by their limit (0 = no limit), whichever is higher.
double weir_balanced_utilization(double cpu, double active, double most_active);

// Load state of one backend.
struct weir_balanced_load { // initialize to zero
	double utilization; // smoothed; includes the penalty
	uint64_t last_ns;
	bool known;
};

// Adds a report. requests_per_second includes failed requests. All values are finite and not
// negative.
void weir_balanced_report(struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, double utilization,
	double requests_per_second, double errors_per_second, uint64_t now_ns);

// no recent utilization: the correction changes only when the mean correction is subtracted
#define WEIR_BALANCED_HOLD (-1.0)
#define WEIR_BALANCED_UNKNOWN (-2.0) // no utilization: the correction fades

// Returns the current utilization, or WEIR_BALANCED_HOLD or WEIR_BALANCED_UNKNOWN.
double weir_balanced_read(const struct weir_balanced_load *load,
	const struct weir_balanced_settings *settings, uint64_t now_ns);

// Does one step: changes the corrections of n backends according to their utilizations
// (weir_balanced_read). elapsed_ns: time since the previous step; at most one second is used.
// Returns false if all corrections are 0: then the configured weights apply.
bool weir_balanced_step(const struct weir_balanced_settings *settings, const double *utilization,
	double *correction, uint32_t n, uint64_t elapsed_ns);

// Returns the corrected weight; > 0 if the configured weight is above 0.
double weir_balanced_weight(double configured, double correction);
