// SPDX-License-Identifier: BSD-3-Clause
//
// Capability of a backend, from its load reports: requests per second over utilization, errors
// penalised. The weight of weighted round robin when weights are "reported".
//
// Source: SRE book, chapter 20; gRFC A58 (blackout, expiration, penalty); Envoy's order: the
// penalty is added before a report of no utilization is refused. gRPC refuses first, so that a
// backend that fails everything at no cost keeps its last good weight for 180 s (`grpc_order`).
//
// Called by weir-control for each backend and by the simulator.
//
// Threads: pure; a struct weir_capability belongs to one thread. Time is an argument.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_capability_settings {
	uint64_t blackout_ns; // how long reports must have come before they are used
	uint64_t expiration_ns; // how long a report is used; > 0
	uint64_t smoothing_ns; // time constant of the averages of rates and utilization; 0 = none
	double penalty; // of errors; 0 = errors do not matter
	bool grpc_order; // for replay: refuse before the penalty; expire only when asked
};

// The defaults: 10 s, 180 s, 10 s, 1.0.
struct weir_capability_settings weir_capability_defaults(void);

// One load report. Rates are of one source: the backend's own, or the balancer's count.
struct weir_capability_report {
	double requests_per_second; // all, failed ones too
	double errors_per_second;
	double utilization; // may be above 1; weir_capability_utilization
};

struct weir_capability { // zeroed at first
	uint64_t since_ns; // first report after it became ready or expired
	uint64_t last_ns; // newest report
	double requests_per_second; // smoothed
	double errors_per_second;
	double utilization;
	double weight;
	bool has_since;
	bool has_last;
};

// Which utilization of a report counts: the largest of the named metrics that were configured,
// else the application's, else the CPU's. Values that are not above 0 are absent. 0 = none.
double weir_capability_utilization(const double *named, uint32_t n, double application, double cpu);

// The formula alone. 0 = refused: no requests, no utilization even with the penalty, or a number
// that is negative or not finite.
double weir_capability_weight(const struct weir_capability_settings *settings,
	const struct weir_capability_report *report);

// A report came in. Returns the weight that it makes, usable or not yet; 0 when it was refused
// and nothing has changed.
double weir_capability_add(struct weir_capability *capability,
	const struct weir_capability_settings *settings,
	const struct weir_capability_report *report, uint64_t now_ns);

// The backend became ready: blackout begins again with its next report.
void weir_capability_ready(struct weir_capability *capability);

// Its weight now; 0 = unknown (blackout, expired, never reported).
double weir_capability_read(struct weir_capability *capability,
	const struct weir_capability_settings *settings, uint64_t now_ns);

// Capabilities of one service's backends into weights above 0, with the same ratios: an unknown
// one (0) gets the mean of the known ones. Scaled by a power of two, so that the largest is
// between 2^30 and 2^31. Returns how many are known; if none is, weights is untouched and the
// configured ones stay in force.
uint32_t weir_capability_weights(const double *capabilities, uint32_t n, uint32_t *weights);
