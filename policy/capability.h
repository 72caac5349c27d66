// SPDX-License-Identifier: BSD-3-Clause
//
// Capability of a backend, computed from its load reports: requests per second divided by
// utilization. Errors lower the capability. With weights "reported", weighted round robin uses the
// capability as the weight.
//
// Sources: SRE book, chapter 20; gRFC A58 (blackout, expiration, penalty); Envoy (order of two
// steps).
//
// As in Envoy, the penalty for errors is added first, and then a report without utilization is
// refused. gRPC refuses such a report before it adds the penalty (`grpc_order`): a backend that
// fails all requests, and needs no CPU for this, then keeps its last good weight for 180 s.
//
// gRPC divides the rate of all requests by the utilization. The SRE book divides the rate of
// successful requests (`successful`).
//
// Called by weir-control for each backend and by the simulator.
//
// Threads: a struct weir_capability belongs to one thread. The caller passes the time.
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct weir_capability_settings {
	uint64_t blackout_ns; // a backend's weight is unknown for this time after its first report
	uint64_t expiration_ns; // a report is used until this age; > 0
	uint64_t smoothing_ns; // time constant of the averages of rates and utilization; 0 = none
	// The penalty times the share of failed requests is added to the utilization
	double penalty;
	// Divide the rate of successful requests, not of all requests, by the utilization
	bool successful;
	// Use the order of gRPC: refuse a report before the penalty is added, and check the
	// expiration only in weir_capability_read.
	bool grpc_order;
};

// Returns the defaults: blackout 10 s, expiration 180 s, smoothing 10 s, penalty 1.0, all requests
// count.
struct weir_capability_settings weir_capability_defaults(void);

// One load report. Both rates are from the same source, either the backend or the balancer's
// counters.
struct weir_capability_report {
	double requests_per_second; // all requests, including failed requests
	double errors_per_second;
	double utilization; // can be above 1; see weir_capability_utilization
};

struct weir_capability { // initialize to zero
	// time of the first report after the backend became ready or its reports expired
	uint64_t since_ns;
	uint64_t last_ns; // time of the newest report
	double requests_per_second; // smoothed
	double errors_per_second;
	double utilization;
	bool has_since;
	bool has_last;
};

// Returns the utilization to use: the largest of the configured named metrics; without named
// metrics, the utilization that the application reports, or, if there is none, the CPU utilization.
// A value of 0 or less counts as absent. Returns 0 if all values are absent.
double weir_capability_utilization(const double *named, uint32_t n, double application, double cpu);

// Computes the weight from one report, without smoothing. Returns 0 if the report is refused: it
// has no requests, its utilization is 0 (including the penalty, except with `grpc_order`), or a
// number is negative, infinite or NaN.
//
// With `successful`, at least a hundredth of the requests counts as successful. Otherwise the
// report of a backend whose requests all fail would be refused, and the backend would keep its last
// weight.
double weir_capability_weight(const struct weir_capability_settings *settings,
	const struct weir_capability_report *report);

// Adds a report. Returns the resulting weight, even during the blackout. If the report is refused,
// returns 0 and changes nothing.
double weir_capability_add(struct weir_capability *capability,
	const struct weir_capability_settings *settings,
	const struct weir_capability_report *report, uint64_t now_ns);

// Call when the backend has become ready. The blackout restarts with its next report.
void weir_capability_ready(struct weir_capability *capability);

// Returns the current weight of the backend; 0 = unknown (blackout, expired, or never reported).
// The settings of this call, except smoothing_ns, also apply to reports that were added with other
// settings.
double weir_capability_read(struct weir_capability *capability,
	const struct weir_capability_settings *settings, uint64_t now_ns);

// Convert the capabilities of a service's backends to integer weights above 0 with about the same
// ratios. For an unknown capability (0), the mean of the known capabilities is used. Weights are
// scaled by a power of two, so that the largest is between 2^30 and 2^31, and are at least 1.
// Returns the number of known capabilities. If no capability is known, weights[] is not changed,
// and the configured weights apply.
uint32_t weir_capability_weights(const double *capabilities, uint32_t n, uint32_t *weights);
