// SPDX-License-Identifier: BSD-3-Clause
//
// Capability of a backend, from its load reports: requests per second over utilization, errors
// penalised. The weight of weighted round robin when weights are "reported".
//
// Source: SRE book, chapter 20; gRFC A58 (blackout, expiration, penalty); Envoy's order: the
// penalty is added before a report of no utilization is refused. gRPC refuses first, so that a
// backend that fails everything at no cost keeps its last good weight for 180 s (`grpc_order`).
// gRPC divides the rate of all requests by the utilization; the book divides the rate of successful
// requests (`successful`).
//
// Called by weir-control for each backend and by the simulator.
//
// Threads: pure; a struct weir_capability belongs to one thread. Time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_capability_settings {
	uint64_t blackout_ns; // how long reports must arrive before they are used
	uint64_t expiration_ns; // how long a report is used; > 0
	uint64_t smoothing_ns; // time constant of the averages of rates and utilization; 0 = none
	double penalty; // added to the utilization, times failed requests per request; 0 = none
	bool successful; // count successful requests only
	bool grpc_order; // for replay: refuse before the penalty; expire only on request
};

// The defaults: 10 s, 180 s, 10 s, 1.0, all requests.
struct weir_capability_settings weir_capability_defaults(void);

// One load report. Rates have a single source: the backend, or the balancer's counters.
struct weir_capability_report {
	double requests_per_second; // all requests, including failed ones
	double errors_per_second;
	double utilization; // may be above 1; weir_capability_utilization
};

struct weir_capability { // zeroed at first
	uint64_t since_ns; // first report after the backend became ready or its reports expired
	uint64_t last_ns; // newest report
	double requests_per_second; // smoothed
	double errors_per_second;
	double utilization;
	bool has_since;
	bool has_last;
};

// The utilization to use: the largest of the configured named metrics; without named metrics the
// application's, and without that the CPU's utilization. A value of 0 or less counts as absent. 0 =
// no utilization.
double weir_capability_utilization(const double *named, uint32_t n, double application, double cpu);

// The formula alone. 0 = refused: no requests, no utilization even with the penalty, or a number
// that is negative or not finite. With `successful`, at least a hundredth of the requests counts: a
// backend without any new flow could not show that it has recovered.
double weir_capability_weight(const struct weir_capability_settings *settings,
	const struct weir_capability_report *report);

// Add a report. Returns the resulting weight, usable or not yet; 0 if the report was refused and
// nothing changed.
double weir_capability_add(struct weir_capability *capability,
	const struct weir_capability_settings *settings,
	const struct weir_capability_report *report, uint64_t now_ns);

// The backend became ready: the blackout restarts with its next report.
void weir_capability_ready(struct weir_capability *capability);

// The current weight of the backend, according to the settings of this call, not those at the time
// of the reports; 0 = unknown (blackout, expired, never reported).
double weir_capability_read(struct weir_capability *capability,
	const struct weir_capability_settings *settings, uint64_t now_ns);

// Convert the capabilities of a service's backends to weights above 0 with the same ratios: an
// unknown capability (0) gets the mean of the known capabilities. Weights are scaled by a power of
// two, so that the largest is between 2^30 and 2^31. Returns the number of known capabilities; if
// the number is 0, weights is untouched, and the configured weights apply.
uint32_t weir_capability_weights(const double *capabilities, uint32_t n, uint32_t *weights);
