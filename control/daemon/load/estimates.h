// SPDX-License-Identifier: BSD-3-Clause
//
// Estimates: what weir-control learns of backends for the policies that need it, and hands on.
//
//   samples of the workers, reports of backends --> service times --> costs in the segment
//   samples of the workers                      --> how long an error counts --> tables
//   reports of backends                         --> capability weights --> tables
//
// For a service whose policy needs none of it nothing is allocated, read or kept.
//
// What a process before this one, or other settings of the same service, had estimated stays in
// force until there is something newer, or it is stale. Estimates outlive the dataplane; they are
// dropped when a backend id gets a new owner.
//
// Threads: one, that of the loop. No clock: time is an argument (CLOCK_MONOTONIC).
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "tables.h"

struct weir_estimates;

int weir_estimates_create(struct weir_estimates **ret); // 0 or -ENOMEM
void weir_estimates_free(struct weir_estimates *estimates); // NULL is fine

// Begin or end to collect, as the tables' services need it now. Call after the tables were given a
// configuration, a segment or a policy. The tables are borrowed until weir_estimates_free, config
// for this call. Takes what the rings hold first, so that no sample goes to a new owner of its id.
// Returns 0 or -ENOMEM: then some services have no estimates.
int weir_estimates_follow(struct weir_estimates *estimates, struct weir_tables *tables,
	const struct weir_config *config, uint64_t now_ns);

// Whether workers measure service times for us: only then is there anything to collect.
bool weir_estimates_measures(const struct weir_estimates *estimates);
// Take the workers' samples (bounded), write the costs that they change. Without a dataplane:
// nothing.
void weir_estimates_collect(struct weir_estimates *estimates, uint64_t now_ns);
// Once a second: let stale estimates go, adjust error windows and weights. Returns whether the
// tables are to be published.
bool weir_estimates_second(struct weir_estimates *estimates, uint64_t now_ns);

// --- reports ---

// X(NAME, field, "what it is called in the API", largest)
#define WEIR_REPORT_FIELDS(X) \
	X(SERVICE_TIME, service_time_ms, 86400000.0) \
	X(BUSY_TIME, busy_time_ms, 86400000.0) \
	X(REQUESTS, requests_per_second, 1e12) \
	X(ERRORS, errors_per_second, 1e12) \
	X(UTILIZATION, utilization, 1e6)

enum weir_report_field {
#define X(name, field, most) WEIR_REPORT_BIT_##name,
	WEIR_REPORT_FIELDS(X)
#undef X
};
#define WEIR_REPORT(name) (1u << WEIR_REPORT_BIT_##name)

struct weir_report {
	uint32_t given; // WEIR_REPORT(...)
#define X(name, field, most) double field; // 0 .. most
	WEIR_REPORT_FIELDS(X)
#undef X
};

// A backend reports. Returns the fields that were used (a bit set), or -EINVAL with one line in
// why: nothing in it is of use to the policy of its service.
int weir_estimates_report(struct weir_estimates *estimates, uint16_t backend,
	const struct weir_report *report, uint64_t now_ns, char *why, size_t why_bytes);

// --- for the API and the tests ---

struct weir_estimate {
	bool collected; // service times are estimated for this backend
	uint64_t service_ns; // mean or median as configured; 0 = unknown
	uint64_t samples; // ever
};
struct weir_estimate weir_estimates_backend(
	const struct weir_estimates *estimates, uint16_t backend, uint64_t now_ns);

// How much is collected: services that need something, backends with statistics of their own.
struct weir_estimates_extent {
	uint32_t services;
	uint32_t backends;
	uint64_t samples; // taken out of rings so far
};
struct weir_estimates_extent weir_estimates_extent(const struct weir_estimates *estimates);
