// SPDX-License-Identifier: BSD-3-Clause
//
// Reports: receives all reports of a backend about itself, in any format (the agent's datagrams, an
// agent-check line, headers of a health check's answer, weirctl).
//
//   its word, or that of one of its ports --> states
//   load        --> estimates
//   its limit, its accept queue, its weight, its CPUs --> tables
//
// A backend's state is the worst of its word and the words of those ports that a bind of its
// service covers: the end of the server on port 80 takes no other service of the host out of use.
// After a reload the words of ports count for the new binds.
//
// A limit is divided by the balancers of the fleet and by their workers; with subsets, by the
// average number that uses a backend. An accept queue at accept_queue_percent of its limit counts
// as at-limit from that report on, until it is below half of that. A value that a source omits in
// its next report is withdrawn; a report of another source withdraws nothing. The CPUs, from which
// an automatic weight is computed, are never withdrawn.
//
// Threads: that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capacity.h"
#include "config.h"
#include "estimates.h"
#include "report.h"
#include "states.h"
#include "tables.h"

// Reports expire after this time and after four times the longest interval of probes and checks of
// the service. The loss of an agent is detected earlier.
#define WEIR_REPORTS_EXPIRE_MS 180000u
#define WEIR_REPORTS_SOURCE_BYTES 16

struct weir_reports;

// The tables changed and must be published.
typedef void (*weir_reports_changed)(void *context);

// A report of a backend with a full accept queue was applied.
typedef void (*weir_reports_full)(void *context, uint16_t backend);

struct weir_reports_status {
	const struct weir_report *report; // the last one; valid until the next call
	const char *source; // of the report
	uint64_t age_ms;
	uint32_t max_active_flows; // its own limit, for all balancers together; 0 = none
	bool at_limit; // its accept queue is full
	// Mean time from one connection that it finishes to the next, in seconds: moving average
	// (steal_duration.h). Below 0 = unknown
	double service_s;
};

// states, estimates: borrowed. Returns 0 or -ENOMEM.
int weir_reports_create(struct weir_states *states, struct weir_estimates *estimates,
	weir_reports_changed changed, void *context, struct weir_reports **ret);
void weir_reports_free(struct weir_reports *reports); // NULL is allowed
// full: NULL = none.
void weir_reports_on_full(struct weir_reports *reports, weir_reports_full full, void *context);

// Set the backends: those of this configuration and these tables. Call after weir_states_configure.
// Reports of backends that stay are kept, except those from an agent, a check or ORCA headers that
// their service no longer has. tables: borrowed until the next call. Returns 0 or -ENOMEM (nothing
// changed).
int weir_reports_configure(
	struct weir_reports *reports, struct weir_tables *tables, const struct weir_config *config);

// Apply a report of a backend, without invalid values: they are removed when it is decoded
// (weir_report_set, weir_report_check). source: up to 15 characters. Returns the fields that were
// used (a bit set); the word is not a field. Does nothing for an unused id.
uint32_t weir_reports_take(struct weir_reports *reports, uint16_t backend,
	const struct weir_report *report, const char *source);

// Why no policy uses the load in the last report; "" = one does.
const char *weir_reports_why(const struct weir_reports *reports);

// A source is gone: its word expires, and its limit, weight and accept queue are withdrawn.
void weir_reports_source_gone(struct weir_reports *reports, uint16_t backend, const char *source);

// Call once a second: removes what has expired.
void weir_reports_second(struct weir_reports *reports, uint64_t now_ms);

// The fields used in a report of a backend, and so requested from its agent: those of the policy in
// use, and CPUs, frequency and speed if a weight of its service is automatic. 0 for an unused id.
uint32_t weir_reports_fields_used(const struct weir_reports *reports, uint16_t backend);

// Whether the accept queue of a backend is full. Cheaper than weir_reports_status.
bool weir_reports_at_limit(const struct weir_reports *reports, uint16_t backend);
// Returns 0, -ENOENT (no report, or no such backend).
int weir_reports_status(
	const struct weir_reports *reports, uint16_t backend, struct weir_reports_status *ret);

// The capacity from which an automatic weight is computed. Returns 0, -ENOENT (not automatic, or
// not reported to this process).
int weir_reports_capacity(
	const struct weir_reports *reports, uint16_t backend, struct weir_capacity *ret);
