// SPDX-License-Identifier: BSD-3-Clause
//
// Reports: where all reports of a backend about itself arrive, in any format (the
// agent's datagrams, an agent-check line, headers of a health check's answer, weirctl).
//
//   its word    --> states
//   load        --> estimates
//   its limit, its accept queue, its weight, its CPUs --> tables
//
// A limit is divided by the balancers of the fleet and by their workers; with subsets, by the part
// of them that uses a backend on average. An accept queue at accept_queue_percent of its limit
// counts as at-limit with that very report, and no longer once it is below half of that. What a
// source has reported and leaves out in its next report is withdrawn; a report of another source
// takes nothing back. The CPUs, which make an automatic weight, are never taken back.
//
// Threads: that of the loop.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config.h"
#include "estimates.h"
#include "report.h"
#include "states.h"
#include "tables.h"

// A backend that was silent for so long, and for four times the longest interval at which its
// service asks, has no report. That an agent is gone is known earlier.
#define WEIR_REPORTS_EXPIRE_MS 180000u
#define WEIR_REPORTS_SOURCE_BYTES 16

struct weir_reports;

// Something in the tables was changed and is to be published.
typedef void (*weir_reports_changed)(void *context);

struct weir_reports_status {
	const struct weir_report *report; // the last one; valid until the next call
	const char *source; // of it
	uint64_t age_ms;
	uint32_t max_active_flows; // its own limit, of all balancers together; 0 = none
	bool at_limit; // its accept queue is full
};

// states, estimates: borrowed. Returns 0 or -ENOMEM.
int weir_reports_create(struct weir_states *states, struct weir_estimates *estimates,
	weir_reports_changed changed, void *context, struct weir_reports **ret);
void weir_reports_free(struct weir_reports *reports); // NULL is fine

// The backends of this configuration and these tables, and no others; after weir_states_configure.
// What those that stay have reported is kept, but for what came from an agent or a check that their
// service has no more. tables: borrowed until the next call. Returns 0 or -ENOMEM (nothing
// changed).
int weir_reports_configure(
	struct weir_reports *reports, struct weir_tables *tables, const struct weir_config *config);

// A report of a backend, without invalid values: they are removed where it is decoded
// (weir_report_set, weir_report_check). source: how it came, up to 15 characters. Returns the
// fields that were used (a bit set); the word is no field. Nothing for an id that no backend has.
uint32_t weir_reports_take(struct weir_reports *reports, uint16_t backend,
	const struct weir_report *report, const char *source);

// Why no policy has a use for the load of the last report that was taken; "" = one has.
const char *weir_reports_why(const struct weir_reports *reports);

// Its source is gone: its word expires, and limit, weight and accept queue are as if it had
// reported nothing of them.
void weir_reports_gone(struct weir_reports *reports, uint16_t backend, const char *source);

// Once a second: forget what has expired.
void weir_reports_second(struct weir_reports *reports, uint64_t now_ms);

// Fields that are of use in a report of a backend, with the policy that is in use; CPUs and their
// speed where a weight of its service is automatic. What its agent is asked to measure. 0 for an id
// that no backend has.
uint32_t weir_reports_wants(const struct weir_reports *reports, uint16_t backend);

// Whether the accept queue of a backend is full. Cheaper than the following.
bool weir_reports_at_limit(const struct weir_reports *reports, uint16_t backend);
// Returns 0, -ENOENT (it has no report, or there is no such backend).
int weir_reports_status(
	const struct weir_reports *reports, uint16_t backend, struct weir_reports_status *ret);
