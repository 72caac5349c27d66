// SPDX-License-Identifier: BSD-3-Clause
//
// Ejection: which backends are ejected, which backends are not, and for how long.
#include <stdio.h>
#include <string.h>

#include "ejection.h"
#include "prng.h"
#include "test.h"

#define BACKENDS 40u
#define SECOND 1000u
#define INTERVAL 10u // evaluations in an interval, one per second

struct world {
	struct weir_ejection_settings settings;
	struct weir_ejection service;
	struct weir_ejection_backend backends[BACKENDS];
	uint32_t count;
	uint64_t now_ms;
};

static struct world begin(uint32_t count) {
	struct world w = {.settings = {.interval_ms = INTERVAL * SECOND,
				  .base_ms = 30 * SECOND,
				  .max_ms = 300 * SECOND,
				  .max_percent = 10,
				  .failure_percent = 85,
				  .minimum_flows = 50,
				  .consecutive_failures = 5},
		.count = count,
		.now_ms = 1000 * SECOND};

	for (uint32_t i = 0; i < count; i++) {
		w.backends[i].candidate = true;
		// counts from before the test
		w.backends[i].count = (struct weir_ejection_count){1000 + i, 50};
	}
	weir_ejection_look(&w.settings, &w.service, w.backends, count, w.now_ms);
	return w;
}

static void feed(struct world *w, uint32_t i, uint64_t established, uint64_t failed) {
	w->backends[i].count.established += established;
	w->backends[i].count.failed += failed;
}

static void look(struct world *w) {
	w->now_ms += SECOND;
	weir_ejection_look(&w->settings, &w->service, w->backends, w->count, w->now_ms);
}

// Simulates one interval. counts: the connections of each backend in the interval, spread over the
// evaluations. Returns the backends that should be ejected, as a bit mask. *ret: the reason for the
// backend with the lowest bit.
static uint64_t interval(struct world *w, const struct weir_ejection_count counts[],
	enum weir_ejection_reason *ret) {
	uint64_t bits = 0;

	*ret = WEIR_EJECTION_NONE;
	for (uint32_t turn = 0; turn < INTERVAL; turn++) {
		for (uint32_t i = 0; i < w->count; i++) {
			feed(w, i,
				counts[i].established * (turn + 1) / INTERVAL -
					counts[i].established * turn / INTERVAL,
				counts[i].failed * (turn + 1) / INTERVAL -
					counts[i].failed * turn / INTERVAL);
		}
		look(w);
		for (uint32_t i = w->count; i-- > 0;) {
			if (w->backends[i].reason != WEIR_EJECTION_NONE) {
				*ret = (enum weir_ejection_reason)w->backends[i].reason;
				bits |= UINT64_C(1) << i;
			}
		}
	}
	return bits;
}

TEST(intervals_eject) {
	static const struct {
		const char *name;
		uint32_t count;
		struct weir_ejection_count counts[6];
		uint64_t bits;
		enum weir_ejection_reason reason;
		bool no_runs; // consecutive failures do not count
	} cases[] = {
		{"nobody fails", 3, {{100, 0}, {100, 0}, {100, 0}}, 0, WEIR_EJECTION_NONE, false},
		{"one fails always", 2, {{0, 100}, {100, 0}}, 1, WEIR_EJECTION_CONSECUTIVE, false},
		{"nine of ten", 2, {{10, 90}, {100, 0}}, 1, WEIR_EJECTION_FAILURE_PERCENT, false},
		{"at the threshold", 2, {{15, 85}, {100, 0}}, 0, WEIR_EJECTION_NONE, false},
		{"too few", 2, {{4, 44}, {100, 0}}, 0, WEIR_EJECTION_NONE, true},
		{"enough", 2, {{5, 45}, {100, 0}}, 1, WEIR_EJECTION_FAILURE_PERCENT, true},
		{"the other backends have nothing to compare with", 2, {{0, 100}, {0, 0}}, 0,
			WEIR_EJECTION_NONE, false},
		{"all of them fail", 3, {{0, 100}, {0, 100}, {0, 100}}, 0, WEIR_EJECTION_NONE,
			false},
		{"half of them fail", 4, {{0, 100}, {0, 100}, {100, 0}, {100, 0}}, 3,
			WEIR_EJECTION_CONSECUTIVE, false},
		{"a single one", 1, {{0, 1000}}, 0, WEIR_EJECTION_NONE, false},
		{"lower success rate", 5, {{60, 40}, {100, 0}, {100, 0}, {100, 0}, {100, 0}}, 1,
			WEIR_EJECTION_SUCCESS_RATE, false},
		{"the same, but one backend less", 4, {{60, 40}, {100, 0}, {100, 0}, {100, 0}}, 0,
			WEIR_EJECTION_NONE, false},
		{"a success rate that is hardly lower", 5,
			{{950, 50}, {1000, 0}, {1000, 0}, {1000, 0}, {1000, 0}}, 0,
			WEIR_EJECTION_NONE, false},
		{"a tenth lower, but of few", 5, {{88, 12}, {98, 2}, {98, 2}, {98, 2}, {98, 2}}, 0,
			WEIR_EJECTION_NONE, false},
		{"a tenth lower and more, of many", 5,
			{{870, 130}, {980, 20}, {980, 20}, {980, 20}, {980, 20}}, 1,
			WEIR_EJECTION_SUCCESS_RATE, false},
		{"a flood of SYNs, and one backend that serves nothing", 4,
			{{0, 100}, {50, 100}, {50, 100}, {50, 100}}, 1, WEIR_EJECTION_CONSECUTIVE,
			false},
		{"a flood that hides it", 4, {{0, 1000}, {50, 1000}, {50, 1000}, {50, 1000}}, 0,
			WEIR_EJECTION_NONE, false},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w = begin(cases[i].count);
		enum weir_ejection_reason reason;
		uint64_t bits;

		w.settings.consecutive_failures = cases[i].no_runs ? 0 : 5;
		bits = interval(&w, cases[i].counts, &reason);

		if (bits != cases[i].bits || reason != cases[i].reason) {
			fail_msg("%s: %#llx, %s", cases[i].name, (unsigned long long)bits,
				weir_ejection_reason_text(reason));
		}
	}
}

TEST(shorter_interval_counts_from_now_on) {
	static const struct weir_ejection_count counts[] = {{5, 95}, {100, 0}};
	enum weir_ejection_reason reason;
	struct world w = begin(2);

	w.settings.consecutive_failures = 0;
	w.service.interval_end_ms = w.now_ms + 3600 * SECOND; // set by previous settings
	assert_int_equal(interval(&w, counts, &reason) | interval(&w, counts, &reason), 1);
	assert_int_equal(reason, WEIR_EJECTION_FAILURE_PERCENT);
}

// There are few flows. Failures count as consecutive over any length of time, until a connection is
// established.
TEST(runs_of_failures_continue_over_intervals) {
	struct world w = begin(3);

	for (uint32_t turn = 0; turn < 4 * 20; turn++) {
		feed(&w, 1, 1, 0);
		feed(&w, 2, 1, 0);
		feed(&w, 0, 0, turn % 20 == 0); // one failure in 20 s
		look(&w);
		assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
	}
	feed(&w, 0, 0, 1);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_CONSECUTIVE);
	assert_int_equal(w.backends[0].judged.failed, 5);
	feed(&w, 0, 1, 0);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
	feed(&w, 0, 0, 4);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
	w.settings.consecutive_failures = 0;
	feed(&w, 0, 0, 40);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
}

// Forged SYNs reach all backends equally, so they must not eject a backend, whatever their share of
// all SYNs is. The test has 10^7 connections.
TEST(floods_eject_no_backend) {
	struct weir_prng random = {.state = 7};

	for (uint32_t forged = 0; forged <= 1000; forged += 50) { // share of forged SYNs, per mille
		struct world w = begin(BACKENDS);

		for (uint32_t turn = 0; turn < 30 * INTERVAL; turn++) {
			for (uint32_t k = 0; k < 2000 / INTERVAL * 8; k++) {
				uint32_t i = weir_prng_below(&random, BACKENDS);
				bool fails = weir_prng_below(&random, 1000) < forged;

				feed(&w, i, !fails, fails);
			}
			look(&w);
			for (uint32_t i = 0; i < BACKENDS; i++) {
				if (w.backends[i].reason != WEIR_EJECTION_NONE) {
					fail_msg("%u of 1,000 forged: %s", forged,
						weir_ejection_reason_text(w.backends[i].reason));
				}
			}
		}
	}
}

TEST(durations_of_ejections_grow_and_shrink) {
	struct world w = begin(4);
	const struct weir_ejection_count good[4] = {{9, 0}, {9, 0}, {9, 0}, {9, 0}};
	struct weir_ejection_backend *b = &w.backends[0];
	enum weir_ejection_reason reason;

	for (uint32_t n = 1; n <= 12; n++) {
		uint64_t wanted_ms = (n < 10 ? n : 10) * 30 * SECOND;

		assert_false(weir_ejection_over(b, w.now_ms));
		assert_int_equal(weir_ejection_begin(&w.settings, b, w.now_ms), wanted_ms);
		assert_true(weir_ejection_is(b));
		w.now_ms += wanted_ms - 1;
		assert_false(weir_ejection_over(b, w.now_ms));
		w.now_ms++;
		assert_true(weir_ejection_over(b, w.now_ms));
		assert_false(weir_ejection_is(b));
		assert_false(weir_ejection_over(b, w.now_ms));
	}
	look(&w); // ends the current interval
	for (uint32_t n = 9; n > 0; n--) { // each good interval reduces `times` by one
		assert_int_equal(b->times, n);
		assert_int_equal(interval(&w, good, &reason), 0);
	}
	assert_int_equal(weir_ejection_begin(&w.settings, b, w.now_ms), 30 * SECOND);
	// The maximum duration is at least the first duration.
	w.settings.base_ms = 900 * SECOND;
	assert_int_equal(weir_ejection_begin(&w.settings, &w.backends[1], 0), 900 * SECOND);
	assert_int_equal(weir_ejection_begin(&w.settings, &w.backends[1], 0), 900 * SECOND);
}

// Failures while a backend is ejected, or takes no new flows, are not counted.
TEST(only_candidates_are_evaluated) {
	struct world w = begin(4);

	weir_ejection_begin(&w.settings, &w.backends[0], w.now_ms);
	w.backends[1].candidate = false;
	for (uint32_t turn = 0; turn < 2 * INTERVAL; turn++) {
		feed(&w, 0, 0, 10);
		feed(&w, 1, 0, 10);
		feed(&w, 2, 10, 0);
		feed(&w, 3, 10, 0);
		look(&w);
		assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
		assert_int_equal(w.backends[1].reason, WEIR_EJECTION_NONE);
	}
	assert_true(weir_ejection_over(&w.backends[0], w.now_ms + 30 * SECOND));
	feed(&w, 0, 0, 4);
	feed(&w, 2, 10, 0);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
	feed(&w, 0, 0, 1);
	feed(&w, 2, 10, 0);
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_CONSECUTIVE);
	// The counters restart from 0, as after a restart of the dataplane.
	w.backends[0].count = (struct weir_ejection_count){0, 3};
	look(&w);
	assert_int_equal(w.backends[0].reason, WEIR_EJECTION_NONE);
}

TEST(number_of_ejections_is_capped) {
	static const struct {
		uint32_t count, percent, allowed;
	} cases[] = {{1, 100, 0}, {2, 10, 1}, {2, 100, 1}, {4, 10, 1}, {4, 50, 2}, {4, 100, 3},
		{20, 10, 2}, {29, 10, 2}, {30, 10, 3}, {40, 0, 1}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w = begin(cases[i].count);
		uint32_t n = 0;

		w.settings.max_percent = cases[i].percent;
		while (weir_ejection_allowed(&w.settings, w.backends, w.count)) {
			weir_ejection_begin(&w.settings, &w.backends[n++], w.now_ms);
		}
		assert_int_equal(n, cases[i].allowed);
	}
}

// Simulate seconds in which one of three backends gets ICMP errors. errors: the number of errors in
// each second, about different flows unless `same`.
TEST(icmp_errors_eject) {
	static const struct {
		const char *name;
		uint32_t unreachable_flows;
		uint8_t errors[12];
		bool same, serves; // serves: the backend establishes a connection every second
		uint32_t second; // second of the ejection, 0 = none
	} cases[] = {
		{"as Linux sends them", 3, {6, 1, 1, 1}, false, false, 3},
		{"one a second", 3, {1, 1, 1}, false, false, 3},
		{"not at all", 3, {0}, false, false, 0},
		{"a restart of the decapsulation", 3, {6, 6}, false, false, 0},
		{"always the same flow", 3, {6, 1, 1, 1, 1, 1}, true, false, 0},
		{"few, in more than an interval", 3, {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 1}, false,
			false, 0},
		{"it serves", 3, {6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6, 6}, false, true, 0},
		{"one flow is enough", 1, {1, 1, 1}, true, false, 3},
		{"never", 0, {6, 6, 6, 6, 6, 6}, false, false, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct world w = begin(3);
		uint32_t flow = 0, ejected = 0;

		w.settings.unreachable_flows = cases[i].unreachable_flows;
		for (uint32_t second = 1; second <= 12 && ejected == 0; second++) {
			for (uint32_t k = 0; k < cases[i].errors[second - 1]; k++) {
				weir_ejection_record_unreachable(&w.settings, &w.backends[0],
					cases[i].same ? 7 : flow++, w.now_ms + 500);
			}
			feed(&w, 0, cases[i].serves, 0);
			look(&w);
			if (w.backends[0].reason == WEIR_EJECTION_UNREACHABLE) {
				ejected = second;
			}
			assert_int_equal(w.backends[1].reason, WEIR_EJECTION_NONE);
		}
		if (ejected != cases[i].second) {
			fail_msg("%s: in second %u", cases[i].name, ejected);
		}
	}
}

// A host that still rejects packets after its ejection is ejected again, for a longer time.
TEST(icmp_errors_eject_again) {
	struct world w = begin(3);
	uint64_t length_ms = 0;
	uint32_t flow = 0;

	w.settings.unreachable_flows = 3;
	for (uint32_t times = 1; times <= 5; times++) {
		do {
			weir_ejection_record_unreachable(
				&w.settings, &w.backends[0], flow++, w.now_ms + 500);
			look(&w);
		} while (w.backends[0].reason != WEIR_EJECTION_UNREACHABLE);
		length_ms = weir_ejection_begin(&w.settings, &w.backends[0], w.now_ms);
		assert_int_equal(length_ms, times * 30 * SECOND);
		// The errors are about existing flows, which stay at the ejected backend.
		weir_ejection_record_unreachable(&w.settings, &w.backends[0], flow++, w.now_ms);
		assert_int_equal(w.backends[0].unreachable.messages, 0);
		w.now_ms += length_ms;
		assert_true(weir_ejection_over(&w.backends[0], w.now_ms));
	}
}
