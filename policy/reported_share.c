// SPDX-License-Identifier: BSD-3-Clause
#include "reported_share.h"

#include <math.h>
#include <stddef.h>

#define MEAN_ROUNDS 8u // number of reports of each backend that the averages cover
// Number of reports of each backend that the sums cover. Sums of changes need more reports than
// averages.
#define FOLLOWS_ROUNDS 64.0
// Initial value of both sums: as if flows and reported requests had already changed together
// this many times, each time by one flow. Therefore the first reports are used.
#define TRUST 8.0
// `spread` is this many times the number of flows that a worker begins at a backend between two
// reports
#define SPREADS 2.0
#define NEARLY_ALL 0.875
#define HOLD_INTERVALS 3u
#define HOLD_LEAST_NS UINT64_C(3000000000)
#define HOLD_MOST_NS UINT64_C(180000000000)
#define ALL_MOST 1e9 // maximum reported number; keeps products finite
#define OUTLIER 4.0 // a report is limited to OUTLIER * (mean + own flows + 1)

static uint64_t hold_ns(const struct weir_reported_count *count, uint64_t now_ns) {
	uint64_t hold = count->last_ns > 0 && now_ns > count->last_ns
				? HOLD_INTERVALS * (now_ns - count->last_ns)
				: 0;

	hold = hold > HOLD_LEAST_NS ? hold : HOLD_LEAST_NS;
	return hold < HOLD_MOST_NS ? hold : HOLD_MOST_NS;
}

// Adds the changes between two reports of a backend to the sums, and the report to the averages.
static void add_change(struct weir_reported_share *share, const struct weir_reported_count *count,
	const struct weir_reported_count *next, bool outside, uint32_t backends) {
	uint32_t most = MEAN_ROUNDS * backends;
	double kept = 1 - 1 / (FOLLOWS_ROUNDS * backends);
	double own_change = next->own - count->own;
	double part;

	share->product = share->product * kept + own_change * (next->all - count->all);
	share->square = share->square * kept + own_change * own_change;
	if (next->too_few || outside) {
		return;
	}
	share->reports = share->reports < most ? share->reports + 1 : most;
	part = 1.0 / share->reports;
	share->own += (next->own - share->own) * part;
	share->all += (next->all - share->all) * part;
	share->begun += ((double)(next->begun - count->begun) - share->begun) * part;
}

// Limits a reported number, once there are as many reports as backends. Otherwise a single extreme
// number would dominate the sums for minutes.
static double bounded(
	const struct weir_reported_share *share, uint32_t backends, double all, double own) {
	double most = share->reports < backends ? ALL_MOST : OUTLIER * (share->all + own + 1);

	most = most < ALL_MOST ? most : ALL_MOST;
	return all < most ? all : most;
}

void weir_reported_share_add(struct weir_reported_share *share, struct weir_reported_count *count,
	uint32_t backends, double all, const struct weir_reported_own *own, uint64_t now_ns) {
	struct weir_reported_count next = {.own = (double)own->flows,
		.all = bounded(share, backends, all, (double)own->flows),
		.begun = own->begun,
		.last_ns = now_ns,
		.until_ns = now_ns + hold_ns(count, now_ns)};

	// If this instance has no flows at the backend, the report cannot be checked: keep the
	// last result.
	next.too_few =
		next.own > 0 ? next.all < WEIR_REPORTED_SHARE_FOLLOWS * next.own : count->too_few;
	if (share->square <= 0) { // the first report
		share->product = share->square = TRUST;
	}
	// Skip the change if the previous report has expired, or if the dataplane was restarted, so
	// that its counts began again at 0.
	if (now_ns < count->until_ns && next.begun >= count->begun) {
		add_change(share, count, &next, own->outside, backends);
	}
	*count = next;
	share->until_ns = share->until_ns > next.until_ns ? share->until_ns : next.until_ns;
}

// Returns the gain (reported_share.h): the mean of e^-t for t from 0 to r.
static double gain(const struct weir_reported_share *share) {
	double r = share->begun / share->own;

	return r > 1e-3 ? (1 - exp(-r)) / r : 1;
}

// Returns one worker's share of the requests in progress at a backend, 0..1.
static double part(const struct weir_reported_share *share, uint32_t workers) {
	return (share->own < share->all ? share->own / share->all : 1) / workers;
}

static bool follows(const struct weir_reported_share *share) {
	return share->product >= WEIR_REPORTED_SHARE_FOLLOWS * share->square;
}

static const char no_reports[] = "no reports of requests in progress";
static const char do_not_follow[] = "reported requests do not rise and fall with the flows";

const char *weir_reported_share_unused(
	const struct weir_reported_share *share, uint32_t workers, uint64_t now_ns) {
	if (now_ns >= share->until_ns) {
		return no_reports;
	}
	if (share->reports == 0) {
		return follows(share) ? no_reports : do_not_follow;
	}
	if (share->own <= 0 || share->all <= 0) {
		return "no flows";
	}
	if (part(share, workers) > NEARLY_ALL) {
		return "nearly all reported requests are flows of this instance";
	}
	if (gain(share) < WEIR_REPORTED_SHARE_GAIN) {
		return "most flows end before the next report";
	}
	return follows(share) ? NULL : do_not_follow;
}

double weir_reported_share_charge(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint64_t now_ns) {
	double mean, charge;

	if (now_ns >= count->until_ns || count->too_few ||
		weir_reported_share_unused(share, 1, now_ns) != NULL) {
		return 1;
	}
	mean = share->all / share->own;
	charge = (count->all + mean) / (count->own + 1) / mean;
	charge = charge < WEIR_REPORTED_CHARGE_MOST ? charge : WEIR_REPORTED_CHARGE_MOST;
	return charge > 1 / WEIR_REPORTED_CHARGE_MOST ? charge : 1 / WEIR_REPORTED_CHARGE_MOST;
}

static uint64_t signal_of(const struct weir_reported_share *share, double all, uint32_t workers,
	uint32_t errors, uint64_t before) {
	double spread = SPREADS * share->begun / workers;
	struct weir_signal_share of = {.flows = part(share, workers) * all,
		.spread = spread < 1 ? spread : 1,
		.gain = gain(share),
		.errors = errors};

	return weir_signal_of_share(&of, before);
}

uint64_t weir_reported_share_signal(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns) {
	return weir_reported_share_unused(share, workers, now_ns) == NULL
		       ? signal_of(share, count->too_few ? share->all : count->all, workers, errors,
				 before)
		       : weir_signal_of_errors(errors);
}

uint64_t weir_reported_share_refresh(const struct weir_reported_share *share,
	const struct weir_reported_count *count, uint32_t workers, uint32_t errors, uint64_t before,
	uint64_t now_ns) {
	if (weir_reported_share_unused(share, workers, now_ns) != NULL) {
		return weir_signal_of_errors(errors);
	}
	if (now_ns < count->until_ns && weir_signal_serial(before) != 0) {
		return before; // unchanged, including the errors from the backend's last report
	}
	return signal_of(share, share->all, workers, errors, before);
}
