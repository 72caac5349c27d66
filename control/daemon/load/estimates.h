// SPDX-License-Identifier: BSD-3-Clause
//
// Estimates: measurements of backends for the policies that need them.
//
//   samples of the workers, reports of backends --> service times --> costs in the segment
//   reports of backends                         --> errors --> costs, or signals of errors
//   reports of backends, flows of workers       --> shares of requests --> signals of shares
//   reports of backends                         --> requests in progress, latency --> probes
//   samples of the workers                      --> error windows --> tables
//   reports of backends                         --> weights --> tables
//
// For a service whose policy needs no estimates, nothing is allocated, read or stored.
//
// Estimates of an earlier process, or from earlier settings with the same measurement, stay in use
// until new estimates exist, or until they are stale. Estimates are kept when the dataplane
// restarts. The estimates of a backend id are dropped when the id is assigned to another backend.
//
// Threads: the thread of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "report.h"
#include "tables.h"

struct weir_estimates;

int weir_estimates_create(struct weir_estimates **ret); // returns 0 or -ENOMEM
void weir_estimates_free(struct weir_estimates *estimates); // NULL is allowed

// Starts the estimates that the services in the tables need, and stops all others. Call this
// function after each change of the configuration, the segment or a policy in the tables. Reads the
// waiting samples first, so that no sample of a previous backend is assigned to the backend that
// now has its id. tables: borrowed until weir_estimates_free. config: borrowed only for this call.
// Returns 0 or -ENOMEM; after -ENOMEM some services have no estimates.
int weir_estimates_follow(struct weir_estimates *estimates, struct weir_tables *tables,
	const struct weir_config *config, uint64_t now_ns);

// Returns whether workers measure service times, so that there are samples to collect.
bool weir_estimates_measures(const struct weir_estimates *estimates);
// Maximum work in one iteration of the loop. This work takes some milliseconds. Unit: the work for
// one sample of a backend that already has statistics.
#define WEIR_ESTIMATES_TURN 16384u
// Work for the first sample of a backend, in the same unit. The first sample takes longer, because
// the statistics are allocated.
#define WEIR_ESTIMATES_FIRST 32u
// Reads the samples of workers and writes the costs that have changed, up to the limit of work for
// one iteration of the loop. Does nothing without a dataplane. Returns whether samples are still
// waiting; if so, call this function again in the next iteration.
bool weir_estimates_collect(struct weir_estimates *estimates, uint64_t now_ns);
// Does the same as weir_estimates_collect for all waiting samples, without a limit of work.
void weir_estimates_drain(struct weir_estimates *estimates, uint64_t now_ns);

struct weir_estimates_sample { // written by another process, not validated
	uint64_t service_ns;
	uint64_t end_ns; // end of the flow; not later than the time at which the sample was read
	uint32_t worker;
	uint16_t backend;
};
// Sets a function that is called for every sample of every service from now on; NULL = none.
// Samples are then collected even if no policy needs them. Workers send samples only for services
// whose service times are measured (weir_tables_set_measured).
typedef void (*weir_estimates_listener)(void *context, const struct weir_estimates_sample *sample);
void weir_estimates_listen(
	struct weir_estimates *estimates, weir_estimates_listener listener, void *context);

// Drops stale estimates, and adjusts error windows and weights. Call this function once a second.
// Returns whether the tables must be published.
bool weir_estimates_second(struct weir_estimates *estimates, uint64_t now_ns);

// --- reports ---

// Processes a report of a backend. Returns the report fields that were used (a bit set). If the
// policy of the backend's service uses no field of the report, returns -EINVAL with one line in
// why.
int weir_estimates_report(struct weir_estimates *estimates, uint16_t backend,
	const struct weir_report *report, uint64_t now_ns, char *why, size_t why_bytes);

// Returns the report fields (a bit set) that the policy of the backend's service uses; 0 = none.
uint32_t weir_estimates_wants(const struct weir_estimates *estimates, uint16_t backend);

// Returns why the policy of a service does not use the reported number of requests in progress;
// NULL = the policy uses it.
const char *weir_estimates_requests_unused(
	const struct weir_estimates *estimates, uint16_t service, uint64_t now_ns);

// --- for the API and the tests ---

struct weir_estimate {
	bool collected; // service times are estimated for this backend
	uint64_t service_ns; // mean or median as configured; 0 = unknown
	uint64_t samples; // number of samples since the estimates of the backend started
};
struct weir_estimate weir_estimates_backend(
	const struct weir_estimates *estimates, uint16_t backend, uint64_t now_ns);

// The number of services that need estimates, the number of backends with estimates, and the number
// of samples.
struct weir_estimates_extent {
	uint32_t services;
	uint32_t backends;
	uint64_t samples; // number of samples read from rings
};
struct weir_estimates_extent weir_estimates_extent(const struct weir_estimates *estimates);
