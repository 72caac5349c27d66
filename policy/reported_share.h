// SPDX-License-Identifier: BSD-3-Clause
//
// Reported share: a worker's share of the requests in progress that backends report, for policies
// that count flows (least-loaded, power-of-two). A worker's own count does not include the flows of
// other workers, instances and clients. Called by weir-control and the simulator; recent_errors.h
// describes how a worker uses the share.
//
// The share is the number of flows that the worker would have at the backend if all workers spread
// their flows in the same way. The share is the reported number, times the fraction of this
// instance, divided by the number of workers of this instance that use the backend. The fraction of
// this instance is measured: its own flows divided by the reported requests, summed over all
// backends that it uses. Therefore other instances need not be configured, and may have any load.
// Only ratios of reported numbers matter.
//
//   age      Some of the flows that a report counts have ended since. Their number is estimated:
//            r is the number of flows that begin between two reports, divided by the number of
//            active flows. The gain is the fraction of the counted flows that is still active on
//            average: the mean of e^-t for t from 0 to r. If the gain is below
//            WEIR_REPORTED_SHARE_GAIN, reports are not used: flows then last for less than a
//            sixth of the interval between reports.
//   herds    After a report, all workers prefer the same backend. Therefore each worker adds a
//            random number of flows from a range whose width is `spread`. The width is twice the
//            number of flows that the worker begins at a backend until the next report, at most
//            one flow.
//   false    A report must change with the flows of this instance: if this instance has one more
//            flow than at the previous report, the reported number should on average also be
//            higher by one, regardless of other clients. The regression of reported numbers on
//            own flows measures this. The result is 1 if reports are current, and 0 if they
//            are late by an interval or more, or count something else. Reports are used only
//            while the result is at least WEIR_REPORTED_SHARE_FOLLOWS. If late reports were
//            used, all new flows would go to backends that were idle earlier. A single report
//            also counts as false or late if its number is less than WEIR_REPORTED_SHARE_FOLLOWS
//            times the flows of this instance. For this backend, the workers then use the mean
//            of the other backends, as for a backend that does not report. Otherwise a backend
//            that always reports 0 would get more flows than other backends. When the service has
//            had as many reports as backends, a report is limited to four times the sum of the
//            mean report, the flows of this instance at the backend, and one.
//
// A policy that predicts service times (fair-share) does not use the number of flows, so it cannot
// use the share. Instead, the cost of a flow is multiplied by the charge of the backend: its
// requests per flow of this instance, relative to the average over all backends.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend_signal.h"

#define WEIR_REPORTED_SHARE_GAIN 0.15
#define WEIR_REPORTED_SHARE_FOLLOWS 0.5
#define WEIR_REPORTED_CHARGE_MOST 4.0

struct weir_reported_share { // for a service. All zeroes: no report yet
	// Moving averages over the last reports. own: flows of this instance at the backend; all:
	// reported requests; begun: flows of this instance that began since the previous report.
	double own, all, begun;
	// Moving sums over the changes between reports: change of own * change of all, (change of
	// own)^2.
	double product, square;
	uint64_t until_ns; // time until which at least one report is valid
	uint32_t reports; // number of reports in the averages
};

struct weir_reported_count { // the last report of a backend. All zeroes: no report
	double own, all; // flows of this instance, reported requests
	uint64_t begun; // total number of flows of this instance
	uint64_t last_ns; // 0 = none
	// When the report expires: after three times the interval between reports, 3 s to 180 s.
	uint64_t until_ns;
	// `all` was below WEIR_REPORTED_SHARE_FOLLOWS * own in the last report with own > 0
	bool too_few;
};

struct weir_reported_own { // the flows of this instance at a backend
	uint64_t flows, begun; // flows: open now; begun: number of flows that have begun so far
	// No worker of this instance sends new flows to the backend, so its reports are not
	// included in the averages.
	bool outside;
};

// Adds a report. backends: number of backends of the service, > 0. all: reported requests in
// progress, >= 0. now_ns: monotonic, above 0.
void weir_reported_share_add(struct weir_reported_share *share, struct weir_reported_count *count,
	uint32_t backends, double all, const struct weir_reported_own *own, uint64_t now_ns);

// Returns why the workers of this instance do not use reports; NULL = they use reports. workers:
// number of workers of this instance that send flows to the backend, > 0.
const char *weir_reported_share_unused(
	const struct weir_reported_share *share, uint32_t workers, uint64_t now_ns);

// Returns the charge of a backend: (all / own) / (sum of all / sum of own), from its last report,
// and from the averages over all backends. The result is from 1 / WEIR_REPORTED_CHARGE_MOST to
// WEIR_REPORTED_CHARGE_MOST. One flow is added to `own`, and its mean number of requests to `all`,
// so that a backend without flows of this instance has a charge. Returns 1 if no report can be
// used: none is valid, weir_reported_share_unused returns a reason for one worker, or the backend
// reports too few requests.
double weir_reported_share_charge(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint64_t now_ns);

// Returns the new signal of a backend after its report: a share, or only the errors if
// weir_reported_share_unused returns a reason. errors: as for weir_signal_of_errors. before: the
// current signal.
uint64_t weir_reported_share_signal(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);

// Returns the new signal of a backend from which no report has arrived since the last call. Call
// about once a second. If weir_reported_share_unused returns a reason, the new signal contains only
// the errors. Otherwise, while the last report is valid, a share does not change. In all other
// cases, the share is computed from the mean of the backends.
uint64_t weir_reported_share_refresh(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);
