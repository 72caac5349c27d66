// SPDX-License-Identifier: BSD-3-Clause
//
// Reported share: a worker's share of the requests in progress that backends report, for policies
// that count flows (least-loaded, power-of-two). Their own counts lack the flows of other workers,
// instances and clients. Used by control and simulator; recent_errors.h describes what a worker
// does with it.
//
// The share is the number of flows that the worker would have at the backend if those of all
// workers were spread alike: the reported number, times the part of this instance in the reported
// requests of all backends that it gives flows to (measured: other instances need not be known, nor
// be as busy as this one), over its workers that do. So only ratios of reported numbers count.
//
//   age      A report describes the flows of its moment, of which a part has ended since. How many
//            is measured: flows that begin from one report to the next, over active ones, r. The
//            gain is the mean of e^-t over t in 0..r. Below WEIR_REPORTED_SHARE_GAIN, when flows
//            last for less than a sixth of the interval, reports are not used.
//   herds    All workers prefer the same backend after a report. Each adds a part of `spread` at
//            random, which is twice the flows that it begins at a backend until the next report,
//            up to one: more differ then.
//   lies     A report must follow the flows of this instance: when these are more by one than at
//            the report before, the reported number is more by one, too, with any number of others
//            that come and go. Its regression on the own flows is 1 if it is of this moment, and 0
//            if it is late by an interval or more, or counts something else. Reports are used while
//            it is at least WEIR_REPORTED_SHARE_FOLLOWS. Late ones would send flows to
//            backends that were idle earlier, and all at once. One of less than that part of the
//            own flows is false by itself, or late: its backend has the mean of the others, as one
//            that does not report. Without that, one that always reports 0 would get more flows
//            than the others, whose shares contain those of other instances. A report of more
//            than four times the mean counts as that.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "backend_signal.h"

#define WEIR_REPORTED_SHARE_GAIN 0.15
#define WEIR_REPORTED_SHARE_FOLLOWS 0.5

struct weir_reported_share { // of a service. Zeroed: no report yet
	// Moving averages over the last reports: flows of this instance at the backend, reported
	// requests, and flows of this instance that began since the previous report.
	double own, all, begun;
	double product, square; // moving sums, of changes: own * reported, own * own
	uint64_t until_ns; // some report is valid until then
	uint32_t reports; // number of reports in the averages
};

struct weir_reported_count { // of a backend: its last report. Zeroed: none
	double own, all; // flows of this instance, reported requests
	uint64_t begun; // total number of flows of this instance
	uint64_t last_ns; // 0 = none
	uint64_t until_ns; // valid until then: for three intervals, 3 s to 180 s
	bool too_few; // the last one with own flows: less than WEIR_REPORTED_SHARE_FOLLOWS of these
};

struct weir_reported_own { // of this instance at a backend
	uint64_t flows, begun; // open ones, and how many have begun so far
	bool outside; // its workers give it no new flows: its report is not in the averages
};

// A report of one of `backends` (> 0) backends with `all` requests in progress (>= 0) has arrived.
// now_ns: monotonic, above 0.
void weir_reported_share_add(struct weir_reported_share *share, struct weir_reported_count *count,
	uint32_t backends, double all, const struct weir_reported_own *own, uint64_t now_ns);

// Why the workers of this instance do not use reports; NULL = reports are used. workers (> 0):
// workers of this instance that give flows to the backend.
const char *weir_reported_share_unused(
	const struct weir_reported_share *share, uint32_t workers, uint64_t now_ns);

// The signal of a backend after its report; errors as for weir_signal_of_errors, before: its
// present signal.
uint64_t weir_reported_share_signal(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);

// Like the signal after a report, about once a second: a backend that does not report (now) has
// the mean of the other backends.
uint64_t weir_reported_share_refresh(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns);
