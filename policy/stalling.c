// SPDX-License-Identifier: BSD-3-Clause
#include "stalling.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

// --- counting -------------------------------------------------------------------------------

struct passed { // since the last evaluation
	uint64_t ms;
	double recent; // decay factor of the sum of recent new flows (time constant memory_ms)
	double late; // decay factor of the average rate (time constant half of after_ms)
};

static struct passed pass(const struct weir_stalling_settings *settings, uint64_t ms) {
	return (struct passed){.ms = ms,
		.recent = exp(-(double)ms / settings->memory_ms),
		.late = exp(-2 * (double)ms / settings->after_ms)};
}

static void take(struct weir_stalling_backend *backend, const struct passed *passed) {
	double new_flows = (double)(backend->new_flows - backend->last);
	bool anew = !backend->known || backend->new_flows < backend->last;

	backend->known = true;
	backend->last = backend->new_flows;
	backend->own =
		backend->moved < backend->half_open ? backend->half_open - backend->moved : 0;
	if (anew) {
		backend->recent = backend->recent_ms = backend->rate = 0;
		backend->looks = 0;
		backend->stalls = false;
	} else if (passed->ms > 0) {
		backend->recent = backend->recent * passed->recent + new_flows;
		backend->recent_ms = backend->recent_ms * passed->recent + (double)passed->ms;
		backend->rate = backend->rate * passed->late +
				new_flows / (double)passed->ms * (1 - passed->late);
	}
}

// --- measure --------------------------------------------------------------------------------

static int compare(const void *a, const void *b) {
	const struct weir_stalling_place *x = a, *y = b;

	return x->share != y->share ? (x->share > y->share) - (x->share < y->share)
				    : (x->backend > y->backend) - (x->backend < y->backend);
}

// Sorts the backends by half-open flows per new flow. moved: also count flows moved from other
// backends. Returns the sum of new flows of all backends.
static double put_in_order(struct weir_stalling_backend *backends, uint32_t count, bool moved,
	struct weir_stalling_place *order) {
	double sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		double recent = backends[i].recent;
		double half_open = (double)(moved ? backends[i].half_open : backends[i].own);

		order[i] = (struct weir_stalling_place){
			.share = recent > 0 ? half_open / recent : DBL_MAX,
			.recent = recent,
			.backend = i};
	}
	qsort(order, count, sizeof(order[0]), compare);
	for (uint32_t p = 0; p < count; p++) {
		sum += order[p].recent;
		order[p].before = sum;
		backends[order[p].backend].place = p;
	}
	return sum;
}

// Returns the first index in [first, end) for which the backends up to this index have at least
// `flows` new flows in total, or end if there is none.
static uint32_t search(
	const struct weir_stalling_place *order, uint32_t first, uint32_t end, double flows) {
	while (first < end) {
		uint32_t middle = first + (end - first) / 2;

		if (order[middle].before >= flows) {
			end = middle;
		} else {
			first = middle + 1;
		}
	}
	return first;
}

// Returns the expected number of half-open flows of a backend, computed from the other backends;
// below 0 = unknown.
static double expected(const struct weir_stalling_backend *backend,
	const struct weir_stalling_place *order, uint32_t count, double sum) {
	double others = sum - backend->recent, flows = others * WEIR_STALLING_MEASURE;
	uint32_t own = backend->place, place;

	if (others < WEIR_STALLING_LEAST) {
		return -1;
	}
	place = search(order, 0, own, flows);
	if (place == own) {
		place = search(order, own + 1, count, flows + backend->recent);
	}
	// If no entry is found because of rounding errors, use the last entry of the other
	// backends.
	place = place < count ? place : own > 0 && own == count - 1 ? own - 1 : count - 1;
	return order[place].share * backend->recent;
}

// --- judging --------------------------------------------------------------------------------

// Returns whether the backend has too many half-open flows, and their average time in the half-open
// state is too long. part: 1 = the normal limit on the number of half-open flows; 0.5 = half of it.
static bool too_many(const struct weir_stalling_settings *settings,
	const struct weir_stalling_backend *backend, double expected, double part) {
	double half_open = (double)backend->own;

	return half_open >= part * (WEIR_STALLING_TIMES * expected + WEIR_STALLING_LEAST) &&
	       half_open * backend->recent_ms >= backend->recent * settings->after_ms / 2;
}

// Returns whether there are at most as many half-open flows as new flows that arrive within half of
// after_ms. If there are more, some flows have been half-open for longer.
static bool may_all_be_new(const struct weir_stalling_settings *settings,
	const struct weir_stalling_backend *backend) {
	return (double)backend->own <= backend->rate * settings->after_ms / 2;
}

// Returns whether a stalling backend still stalls. The limit is lower if few half-open flows are
// left, because the last flows must also be moved.
static bool too_many_still(const struct weir_stalling_settings *settings,
	const struct weir_stalling_backend *backend, double expected) {
	double half_open = (double)backend->own;

	return half_open < WEIR_STALLING_LEAST ? half_open > 0.5 * WEIR_STALLING_TIMES * expected
					       : too_many(settings, backend, expected, 0.5);
}

static void judge_stalling(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backend, double expected) {
	backend->looks = may_all_be_new(settings, backend) ? backend->looks + 1 : 0;
	if (backend->looks == WEIR_STALLING_LOOKS ||
		!too_many_still(settings, backend, expected > 0 ? expected : 0)) {
		backend->stalls = false;
		backend->looks = 0;
	}
}

static void judge_other(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backend, double expected) {
	if (expected < 0 || !too_many(settings, backend, expected, 1) ||
		may_all_be_new(settings, backend)) {
		backend->looks = 0;
		return;
	}
	if (backend->looks == 0 || backend->own < backend->first) {
		backend->looks = 0;
		backend->first = backend->own;
	}
	if (++backend->looks == WEIR_STALLING_LOOKS) {
		backend->stalls = true;
		backend->looks = 0;
	}
}

// Evaluates the backends that stall or, if stalling is false, the other backends. Returns the
// number of all backends that stall after the evaluation.
static uint32_t judge(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, bool stalling,
	struct weir_stalling_place *order) {
	double sum = put_in_order(backends, count, !stalling, order);
	uint32_t stall = 0;

	for (uint32_t i = 0; i < count; i++) {
		struct weir_stalling_backend *backend = &backends[i];

		if (backend->stalls == stalling) {
			(stalling ? judge_stalling : judge_other)(
				settings, backend, expected(backend, order, count, sum));
		}
		stall += backend->stalls;
	}
	return stall;
}

uint32_t weir_stalling_look(const struct weir_stalling_settings *settings,
	struct weir_stalling_backend *backends, uint32_t count, struct weir_stalling_place *order,
	uint64_t passed_ms) {
	const struct passed passed = pass(settings, passed_ms);
	uint32_t stalling = 0;

	for (uint32_t i = 0; i < count; i++) {
		take(&backends[i], &passed);
		stalling += backends[i].stalls;
	}
	if (stalling > 0) {
		(void)judge(settings, backends, count, true, order);
	}
	return judge(settings, backends, count, false, order);
}
