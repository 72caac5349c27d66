// SPDX-License-Identifier: BSD-3-Clause
//
// Reports: receives all reports of a backend about itself, in any format (the agent's datagrams, an
// agent-check line, headers of a health check's answer, exit status of a check program, weirctl).
//   state of the host, states of ports           --> states (announced.h)
//   load                                         --> estimates
//   limit, accept queue, weight, number of CPUs  --> tables
//
// State: the state of a backend is the worst of the host's state and the states of the ports that a
// bind of its service covers. So if the server on port 80 stops, services on other ports of the
// host stay in use. After a reload, the states of ports are evaluated for the new binds.
//
// Limit: the share of this instance is the limit divided by the number of balancers in the fleet,
// or, with subsets, by the average number of balancers that use a backend. If each flow is a
// request and the backend reports its active requests, the share also depends on these
// (weir_reports_share).
//
// Accept queue: when the length of the queue reaches accept_queue_percent of its maximum, the
// backend is at its limit until the length is below half of this percentage.
//
// A value is withdrawn when its source omits the value in the next report, except a value of an
// agent-check; reports of other sources do not withdraw the value. The CPUs, from which an
// automatic weight is computed, are never withdrawn.
//
// Threads: only the event loop's thread.
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

// All values of a backend, except the CPUs and the host state lame duck, expire this time after its
// last report from any source, or four times the longest interval of the service's probes and
// checks if that is longer. A lost agent is detected earlier.
#define WEIR_REPORTS_EXPIRE_MS 180000u
#define WEIR_REPORTS_SOURCE_BYTES 16

struct weir_reports;

// Called when the tables have changed and must be published.
typedef void (*weir_reports_changed)(void *context);

// Called after a report was applied, from any source, if the backend is now at its limit because of
// its accept queue.
typedef void (*weir_reports_full)(void *context, uint16_t backend);

struct weir_reports_status {
	// The last report and its source, valid until the next report or configuration.
	const struct weir_report *report;
	const char *source;
	uint64_t age_ms;
	uint32_t max_active_flows; // limit of the backend, for all balancers together; 0 = none
	bool at_limit; // because of the accept queue
	// Mean time in seconds between the ends of two successive connections, as a moving average
	// (steal_duration.h). Below 0 = unknown.
	double service_s;
};

// states, estimates: borrowed. Returns 0 or -ENOMEM.
int weir_reports_create(struct weir_states *states, struct weir_estimates *estimates,
	weir_reports_changed changed, void *context, struct weir_reports **ret);
void weir_reports_free(struct weir_reports *reports); // NULL is allowed
// Set the callback for full accept queues. full: NULL = no callback.
void weir_reports_on_full(struct weir_reports *reports, weir_reports_full full, void *context);

// Replaces all backends with the backends of this configuration and these tables. Call after
// weir_states_configure. Backends that are still configured keep their reports, except reports from
// a source that the service no longer uses: an agent, a check or ORCA headers. tables: borrowed
// until the next call. Returns 0 or -ENOMEM (nothing changed).
int weir_reports_configure(
	struct weir_reports *reports, struct weir_tables *tables, const struct weir_config *config);

// Applies a report of a backend. The caller has removed invalid values (weir_report_set,
// weir_report_check). source: up to 15 characters. Returns the used fields (a bit set); the
// announced state is not a field. Does nothing for an unused id.
uint32_t weir_reports_take(struct weir_reports *reports, uint16_t backend,
	const struct weir_report *report, const char *source);

// Returns why the service's policy did not use the load in the report of the last
// weir_reports_take; "" = the policy used the load.
const char *weir_reports_why(const struct weir_reports *reports);

// Call when a source no longer reports. Expires the state that the source announced, and withdraws
// the limit, weight and accept queue of the source.
void weir_reports_source_gone(struct weir_reports *reports, uint16_t backend, const char *source);

// Call once a second: removes expired reports, and applies reported percentages to changed weights.
void weir_reports_second(struct weir_reports *reports, uint64_t now_ms);

// Returns the report fields of a backend that are used, and therefore requested from its agent: the
// fields of the policy in use, and the fields that the settings of the service need
// (weir_reports_wants). Returns 0 for an unused id.
uint32_t weir_reports_fields_used(const struct weir_reports *reports, uint16_t backend);

// Returns whether a backend is at its limit because of its accept queue. Faster than
// weir_reports_status.
bool weir_reports_at_limit(const struct weir_reports *reports, uint16_t backend);
// Returns 0, -ENOENT (no report, or no backend with this id).
int weir_reports_status(
	const struct weir_reports *reports, uint16_t backend, struct weir_reports_status *ret);

// Gets the capacity from which the automatic weight of a backend is computed. Returns 0, or
// -ENOENT: the weight is not automatic, or no CPUs were reported to this process.
int weir_reports_capacity(
	const struct weir_reports *reports, uint16_t backend, struct weir_capacity *ret);
