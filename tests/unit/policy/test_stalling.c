// SPDX-License-Identifier: BSD-3-Clause
//
// Stalling: detection of backends that accept no connections, while other backends are healthy. The
// tests include SYN floods, and little traffic.
#include <string.h>

#include "prng.h"
#include "stalling.h"
#include "test.h"

#define BACKENDS 40u
#define LOOK_MS 100u
#define TIMEOUT 50u // readings until a flow times out
#define SECOND (1000 / LOOK_MS)

struct of_backend { // simulated behaviour of a backend
	double per_second; // rate of flows from clients
	double forged; // number of forged SYNs for each client's flow
	uint32_t takes; // readings until a client's flow is accepted; TIMEOUT = never
	// number of flows of clients (began) and of forged flows (left), by reading
	uint32_t began[TIMEOUT], left[TIMEOUT];
};

struct world {
	struct weir_stalling_settings settings;
	struct weir_stalling_backend backends[BACKENDS];
	struct weir_stalling_place order[BACKENDS];
	struct of_backend of[BACKENDS];
	uint32_t count, look;
	struct weir_prng random;
};

static struct world begin(uint32_t count, double per_second) {
	struct world w = {.settings = {.memory_ms = TIMEOUT * LOOK_MS, .after_ms = 500},
		.count = count,
		.random = {4711}};

	for (uint32_t i = 0; i < count; i++) {
		w.of[i] = (struct of_backend){.per_second = per_second, .takes = 1};
		w.backends[i].new_flows = 1000 * i; // flows from before the test
	}
	return w;
}

// Returns the number of flows that start in this interval. The number is random; its mean follows
// from the rate.
static uint32_t arrivals(struct world *w, double per_second) {
	double mean = per_second / SECOND;
	uint32_t n = 0;

	for (int chances = 0; chances < 8; chances++) { // at most 8 times the mean
		double one = mean / 8;
		uint32_t whole = (uint32_t)one;
		double r = (double)(weir_prng_next(&w->random) >> 11) / (double)(1ull << 53);

		n += whole + (r < one - whole);
	}
	return n;
}

// Simulates and evaluates one reading. Returns the number of stalling backends.
static uint32_t look(struct world *w) {
	uint32_t at = w->look++ % TIMEOUT;

	for (uint32_t i = 0; i < w->count; i++) {
		struct of_backend *of = &w->of[i];

		of->began[at] = arrivals(w, of->per_second);
		of->left[at] = arrivals(w, of->per_second * of->forged);
		w->backends[i].new_flows += of->began[at] + of->left[at];
		w->backends[i].half_open = 0;
		for (uint32_t age = 0; age < TIMEOUT; age++) {
			uint32_t then = (at + TIMEOUT - age) % TIMEOUT;

			w->backends[i].half_open +=
				of->left[then] + (age < of->takes ? of->began[then] : 0);
		}
	}
	return weir_stalling_look(&w->settings, w->backends, w->count, w->order, LOOK_MS);
}

// Runs `count` readings. Returns the sum of the numbers of stalling backends.
static uint64_t looks(struct world *w, uint32_t count) {
	uint64_t sum = 0;

	for (uint32_t i = 0; i < count; i++) {
		sum += look(w);
	}
	return sum;
}

// Returns the number of readings until exactly `stalling` backends stall, or UINT32_MAX if this
// does not happen in `most` readings.
static uint32_t until(struct world *w, uint32_t stalling, uint32_t most) {
	for (uint32_t i = 1; i <= most; i++) {
		if (look(w) == stalling) {
			return i;
		}
	}
	return UINT32_MAX;
}

TEST(a_backend_that_accepts_nothing_stalls) {
	static const double rates[] = {20, 100, 1000, 100000};

	for (size_t r = 0; r < sizeof(rates) / sizeof(rates[0]); r++) {
		struct world w = begin(4, rates[r]);

		assert_int_equal(looks(&w, 20 * SECOND), 0);
		w.of[2].takes = TIMEOUT;
		assert_in_range(until(&w, 1, 5 * SECOND), 3, rates[r] < 100 ? 15 : 7);
		assert_true(w.backends[2].stalls);
		assert_int_equal(
			// the backend stalls until it has recovered
			looks(&w, 20 * SECOND), 20 * SECOND);
		w.of[2].takes = 1;
		assert_in_range(until(&w, 0, 5 * SECOND), 1, 3);
		assert_int_equal(looks(&w, 20 * SECOND), 0);
	}
}

// All existing flows are established, so the number of half-open flows grows from 0.
TEST(a_growing_backlog_is_detected_in_time) {
	for (uint64_t seed = 1; seed <= 40; seed++) {
		struct world w = begin(4, 100);

		w.random = (struct weir_prng){seed};
		assert_int_equal(looks(&w, 20 * SECOND), 0);
		memset(w.of[2].began, 0, sizeof(w.of[2].began));
		w.of[2].takes = TIMEOUT;
		assert_in_range(until(&w, 1, 5 * SECOND), 6, 8);
		assert_true(w.backends[2].stalls);
	}
}

// Starts the first flows, all at once. Backend 1 accepts no connections; this is detected.
static void burst(struct world *w) {
	assert_int_equal(looks(w, SECOND), 0);
	for (uint32_t i = 0; i < w->count; i++) {
		w->of[i].per_second = 40 * SECOND;
		w->of[i].takes = i == 1 ? TIMEOUT : 1;
	}
	look(w);
	for (uint32_t i = 0; i < w->count; i++) {
		w->of[i].per_second = 0;
	}
	assert_int_equal(until(w, 1, 3), 3);
	assert_true(w->backends[1].stalls);
}

// A stalling backend is detected in a burst, although no earlier flows exist for comparison.
TEST(a_burst_is_sufficient) {
	struct world w = begin(4, 0);

	burst(&w);
}

// When most of the waiting flows have moved to other backends, the remaining flows must also move.
TEST(the_last_few_flows_are_moved_too) {
	struct world w = begin(4, 0);

	burst(&w);
	for (uint64_t left = 7; left > 0; left--) {
		w.backends[1].half_open = left;
		assert_int_equal(
			weir_stalling_look(&w.settings, w.backends, w.count, w.order, LOOK_MS), 1);
	}
	w.backends[1].half_open = 0;
	assert_int_equal(weir_stalling_look(&w.settings, w.backends, w.count, w.order, LOOK_MS), 0);
}

// A backend accepts its clients again, but has longer round trips than other backends. Therefore it
// always has a few half-open flows. It must nevertheless stop being reported as stalling.
TEST(a_distant_backend_recovers_as_fast) {
	for (uint32_t rate = 5; rate <= 60; rate += 5) {
		for (uint32_t takes = 1; takes <= 2; takes++) {
			struct world w = begin(4, rate);

			for (uint32_t i = 0; i < w.count; i++) {
				w.of[i].takes = i == 1 ? takes : 0;
			}
			assert_int_equal(looks(&w, 20 * SECOND), 0);
			w.of[1].takes = TIMEOUT;
			assert_int_not_equal(until(&w, 1, 20 * SECOND), UINT32_MAX);
			looks(&w, 2 * SECOND);
			w.of[1].takes = takes;
			assert_in_range(until(&w, 0, 20 * SECOND), 1, SECOND);
		}
	}
}

// A backend accepts no flows, and all its flows are moved as soon as they may be moved. A few flows
// always wait at the backend. They must also be moved, so the backend must still be reported as
// stalling.
TEST(a_relieved_backend_keeps_stalling) {
	for (uint32_t rate = 25; rate <= 400; rate *= 2) {
		struct world w = begin(4, rate);

		assert_int_equal(looks(&w, 20 * SECOND), 0);
		w.of[1].takes = TIMEOUT;
		assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
		w.of[1].takes = 7;
		assert_int_equal(looks(&w, 20 * SECOND), 20 * SECOND);
	}
}

// New flows go to other backends, as with a policy that measures load, but the existing flows still
// wait.
TEST(a_backend_without_new_flows_stalls) {
	struct world w = begin(4, 200);

	assert_int_equal(looks(&w, 20 * SECOND), 0);
	w.of[0].takes = TIMEOUT;
	looks(&w, 6);
	w.of[0].per_second = 0;
	assert_in_range(until(&w, 1, SECOND), 1, 3);
	assert_in_range(until(&w, 0, 10 * SECOND), 30, TIMEOUT); // the flows expire then
}

TEST(if_most_stall_the_others_are_the_reference) {
	struct world w = begin(8, 100);

	looks(&w, 10 * SECOND);
	for (uint32_t i = 0; i < 6; i++) {
		w.of[i].takes = TIMEOUT;
	}
	assert_int_not_equal(until(&w, 6, 5 * SECOND), UINT32_MAX);
	assert_false(w.backends[6].stalls || w.backends[7].stalls);
	for (uint32_t i = 6; i < 8; i++) {
		w.of[i].takes = TIMEOUT;
	}
	looks(&w, 5 * SECOND);
	assert_false(w.backends[6].stalls || w.backends[7].stalls); // no backend is better
}

// Moves the flows that wait at the first backend to the next two backends.
static void relieve_first(struct world *w) {
	w->of[0].takes = 7;
	for (uint32_t i = 1; i < 3; i++) {
		w->of[i].per_second += 50;
		w->backends[i].moved = 75;
	}
}

// A few SYNs are forged. Two backends get the flows of a stalling backend. These flows are soon
// accepted, but may still be half-open. The other backends must not be detected as stalling because
// of this.
TEST(backends_that_take_flows_make_no_other_stall) {
	static const double forged[] = {0.05, 0.1, 0.3};

	for (size_t f = 0; f < sizeof(forged) / sizeof(forged[0]); f++) {
		struct world w = begin(6, 100);

		for (uint32_t i = 0; i < w.count; i++) {
			w.of[i].forged = i > 0 ? forged[f] : 0;
		}
		assert_int_equal(looks(&w, 20 * SECOND), 0);
		w.of[0].takes = TIMEOUT;
		assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
		relieve_first(&w);
		w.of[1].forged *= 2.0 / 3;
		w.of[2].forged *= 2.0 / 3;
		for (uint32_t n = 0; n < 60 * SECOND; n++) {
			assert_in_range(look(&w), 0, 1);
			assert_true(w.backends[0].stalls || forged[f] > 0.2);
		}
	}
}

// A second backend stalls as well. It is either a backend that gets flows of the first backend, or
// a backend that gets none of them.
TEST(a_second_backend_stalls_beside_the_first) {
	for (uint32_t second = 1; second < 4; second += 2) {
		struct world w = begin(4, 100);

		assert_int_equal(looks(&w, 20 * SECOND), 0);
		w.of[0].takes = TIMEOUT;
		assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
		relieve_first(&w);
		w.of[1].takes = w.of[2].takes = 3; // many flows are half-open
		looks(&w, 5 * SECOND);
		w.of[second].takes = TIMEOUT;
		assert_in_range(until(&w, 2, 10 * SECOND), 3, 3 * SECOND);
		assert_true(w.backends[0].stalls && w.backends[second].stalls);
	}
}

TEST(a_flood_makes_no_backend_stall) {
	static const double forged[] = {0.5, 3, 30, 1000};

	for (size_t f = 0; f < sizeof(forged) / sizeof(forged[0]); f++) {
		for (uint32_t count = 1; count <= BACKENDS; count = count * 3 - 1 + (count == 1)) {
			struct world w = begin(count, 5);

			for (uint32_t i = 0; i < count; i++) { // backends have weights of 1 to 5
				w.of[i].per_second *= 1 + i % 5;
			}
			assert_int_equal(looks(&w, 20 * SECOND), 0);
			for (uint32_t i = 0; i < count; i++) {
				w.of[i].forged = forged[f];
			}
			assert_int_equal(looks(&w, 120 * SECOND), 0);
			w.of[0].per_second = 0; // the backend is drained
			assert_int_equal(looks(&w, 20 * SECOND), 0);
			for (uint32_t i = 0; i < count; i++) {
				w.of[i].forged = 0;
			}
			assert_int_equal(looks(&w, 20 * SECOND), 0);
		}
	}
}

TEST(a_stalling_backend_is_detected_in_a_flood) {
	struct world w = begin(10, 100);

	for (uint32_t i = 0; i < w.count; i++) {
		w.of[i].forged = 0.2;
	}
	assert_int_equal(looks(&w, 20 * SECOND), 0);
	w.of[7].takes = TIMEOUT;
	assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
	assert_true(w.backends[7].stalls);
}

// Runs `count` readings. In each reading, each backend gets `ended` more flows that end at once.
static uint64_t looks_with_ended(struct world *w, uint32_t count, uint32_t ended) {
	uint64_t sum = 0;

	for (uint32_t n = 0; n < count; n++) {
		for (uint32_t i = 0; i < w->count; i++) {
			w->backends[i].new_flows += ended;
		}
		sum += look(w);
	}
	return sum;
}

// For each flow of a client there are `times` flows that end at once (SYN and RST). They make the
// average wait shorter.
TEST(flows_that_end_at_once_hide_a_backlog) {
	static const struct {
		uint32_t times;
		bool hides;
	} cases[] = {{1, false}, {16, false}, {24, true}};

	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		const uint32_t ended = 100 / SECOND * cases[c].times;
		struct world w = begin(4, 100);

		assert_int_equal(looks_with_ended(&w, 20 * SECOND, ended), 0);
		w.of[1].takes = TIMEOUT;
		assert_int_equal(looks_with_ended(&w, 20 * SECOND, ended),
			cases[c].hides ? 0 : 20 * SECOND - 2);
	}
}

TEST(an_idle_backend_does_not_stall) {
	struct world w = begin(10, 100);

	for (uint32_t i = 0; i < w.count; i++) {
		w.of[i].per_second = i == 0 ? 0.2 : i == 1 ? 0 : 100;
		w.of[i].takes = i < 2 ? TIMEOUT : 1;
	}
	assert_int_equal(looks(&w, 60 * SECOND), 0);
	w = begin(2, 0); // other backends are idle, so that there is no reference
	w.of[0].per_second = 100;
	w.of[0].takes = TIMEOUT;
	assert_int_equal(looks(&w, 60 * SECOND), 0);
}

// A backend has longer round trips than other backends, but the round trips are shorter than the
// time after which a flow may be moved.
TEST(a_distant_backend_does_not_stall) {
	struct world w = begin(10, 1000);

	for (uint32_t i = 0; i < w.count; i++) {
		w.of[i].takes = i == 3 ? 2 : 0;
	}
	w.settings.after_ms = 500;
	assert_int_equal(looks(&w, 60 * SECOND), 0);
	w.settings.after_ms = 100;
	assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
}

TEST(restarted_counters_restart_the_detection) {
	struct world w = begin(4, 100);

	w.of[1].takes = TIMEOUT;
	assert_int_not_equal(until(&w, 1, 5 * SECOND), UINT32_MAX);
	for (uint32_t i = 0; i < w.count; i++) { // weir-dataplane was restarted
		w.backends[i].new_flows = 0;
		memset(w.of[i].began, 0, sizeof(w.of[i].began));
		w.of[i].takes = 1;
	}
	assert_int_equal(looks(&w, 20 * SECOND), 0);
}

// The id of a backend is reused, so counts and flows start from 0.
static void begin_anew(struct world *w, uint32_t backend) {
	memset(w->of[backend].began, 0, sizeof(w->of[backend].began));
	memset(w->of[backend].left, 0, sizeof(w->of[backend].left));
	w->backends[backend].new_flows = 0;
}

TEST(a_decreased_count_restarts_the_detection) {
	struct world w = begin(4, 1000);

	assert_int_equal(looks(&w, 20 * SECOND), 0);
	begin_anew(&w, 1);
	assert_int_equal(looks(&w, 20 * SECOND), 0);
	w.of[1].takes = TIMEOUT;
	assert_in_range(until(&w, 1, 5 * SECOND), 3, 7);
	assert_true(w.backends[1].stalls);
	begin_anew(&w, 1);
	assert_int_equal(look(&w), 0);
	// The backend with the reused id accepts no client either.
	assert_in_range(until(&w, 1, 5 * SECOND), WEIR_STALLING_LOOKS, 15);
	assert_true(w.backends[1].stalls);
}
