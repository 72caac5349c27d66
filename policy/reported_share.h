// SPDX-License-Identifier: BSD-3-Clause
//
// Reported share: a worker's share of the requests in progress that backends report, for policies
// that count flows (least-loaded, power-of-two). A worker's own count lacks the flows of other
// workers, instances and clients. Called by weir-control and the simulator; recent_errors.h
// describes how a worker uses the share.
//
// The share is the number of flows that the worker would have at the backend if all workers spread
// their flows alike: the reported number, times the part of this instance, divided by the number of
// its workers that give flows to the backend. The part of this instance is measured: its own flows
// divided by the reported requests, over all backends to which it gives flows. Other instances need
// not be known, and may be more or less busy. Only ratios of reported numbers count.
//
//   age      Some of the flows that a report counts have ended since. How many is measured: r is
//            the number of flows that begin from one report to the next, divided by the number of
//            active flows. The gain is the mean of e^-t over t in 0..r. If the gain is below
//            WEIR_REPORTED_SHARE_GAIN, reports are not used: flows then last for less than a sixth
//            of the interval between reports.
//   herds    After a report, all workers prefer the same backend. Therefore each worker adds a
//            random number of flows from a range of `spread`: twice the number of flows that the
//            worker begins at a backend until the next report, at most one flow.
//   false    A report must change with the flows of this instance: if this instance has one flow
//            more than at the previous report, the reported number should also be higher by one,
//            whatever other clients do. The regression of reported numbers on own flows measures
//            this. It is 1 if reports are up to date, and 0 if they are late by an interval or
//            more, or count something else. Reports are used only while it is at least
//            WEIR_REPORTED_SHARE_FOLLOWS. Late reports would send all new flows to backends that
//            were idle earlier. A single report may also be false or late: it has fewer requests
//            than WEIR_REPORTED_SHARE_FOLLOWS times the flows of this instance. Its backend then
//            gets the mean of the other backends, like a backend that does not report. Otherwise a
//            backend that always reports 0 would get more flows than the others. A report of more
//            than four times the mean counts as four times the mean.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend_signal.h"

#define WEIR_REPORTED_SHARE_GAIN 0.15
#define WEIR_REPORTED_SHARE_FOLLOWS 0.5

struct weir_reported_share { // of a service. Zeroed: no report yet
	// Moving averages over the last reports. own: flows of this instance at the backend; all:
	// reported requests; begun: flows of this instance that began since the previous report.
	double own, all, begun;
	// Moving sums over the changes between reports: change of own * change of all, (change of
	// own)^2.
	double product, square;
	uint64_t until_ns; // time until which at least one report is valid
	uint32_t reports; // number of reports in the averages
};

struct weir_reported_count { // the last report of a backend. Zeroed: no report
	double own, all; // flows of this instance, reported requests
	uint64_t begun; // total number of flows of this instance
	uint64_t last_ns; // 0 = none
	// The report is valid until then: for three intervals of reports, 3 s to 180 s.
	uint64_t until_ns;
	bool too_few; // the last report while own > 0 was below WEIR_REPORTED_SHARE_FOLLOWS * own
};

struct weir_reported_own { // the flows of this instance at a backend
	uint64_t flows, begun; // flows: open now; begun: number of flows that have begun so far
	// No worker of this instance gives new flows to the backend: the averages leave its reports
	// out.
	bool outside;
};

// Adds a report that has arrived. backends: number of backends of the service, > 0. all: reported
// requests in progress, >= 0. now_ns: monotonic, above 0.
void weir_reported_share_add(struct weir_reported_share *share, struct weir_reported_count *count,
	uint32_t backends, double all, const struct weir_reported_own *own, uint64_t now_ns);

// Returns why the workers of this instance do not use reports; NULL = they use reports. workers:
// number of workers of this instance that give flows to the backend, > 0.
const char *weir_reported_share_unused(
	const struct weir_reported_share *share, uint32_t workers, uint64_t now_ns);

// Returns the new signal of a backend after its report. errors: as for weir_signal_of_errors.
// before: the present signal.
uint64_t weir_reported_share_signal(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);

// Returns the signal of a backend when no report has arrived; call about once a second. A backend
// that does not report gets the mean of the other backends.
uint64_t weir_reported_share_refresh(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);
