// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the limit on probes in flight, without real probes.
#include <stdlib.h>
#include <sys/resource.h>

#include "health.h"
#include "health_starts.h"
#include "test.h"

#define LIMIT WEIR_HEALTH_CONCURRENT
#define STARTS (2u * LIMIT)

struct lab {
	struct weir_health_starts starts;
	struct weir_health_start start[STARTS];
	struct rlimit limit;
};

static void run(struct weir_health_start *start) {
	assert_int_equal(start->state, WEIR_HEALTH_START_RUNNING);
}

static void limit_descriptors(struct lab *lab, rlim_t most) {
	struct rlimit limit = {.rlim_cur = most, .rlim_max = lab->limit.rlim_max};

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	weir_health_starts_limit(&lab->starts);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &lab->limit), 0);
	weir_health_starts_init(&lab->starts, LIMIT, run);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	assert_int_equal(setrlimit(RLIMIT_NOFILE, &lab->limit), 0);
	free(lab);
	return 0;
}

// Request the starts first to last - 1. Returns how many of these probes run.
static uint32_t add(struct lab *lab, uint32_t first, uint32_t last, bool is_failing) {
	uint32_t running = 0;

	for (uint32_t i = first; i < last; i++) {
		weir_health_starts_add(&lab->starts, &lab->start[i], is_failing, 1);
	}
	for (uint32_t i = first; i < last; i++) {
		running += lab->start[i].state == WEIR_HEALTH_START_RUNNING;
	}
	return running;
}

static void end(struct lab *lab, uint32_t i) {
	weir_health_starts_remove(&lab->starts, &lab->start[i]);
	weir_health_starts_run(&lab->starts);
}

TEST(starts_are_limited_and_queued_in_order) {
	struct lab *lab = *state;

	assert_int_equal(add(lab, 0, LIMIT + 2, false), LIMIT);
	assert_int_equal(lab->start[LIMIT].state, WEIR_HEALTH_START_QUEUED);
	end(lab, 5);
	assert_int_equal(lab->start[LIMIT].state, WEIR_HEALTH_START_RUNNING);
	assert_int_equal(lab->start[LIMIT + 1].state, WEIR_HEALTH_START_QUEUED);
}

TEST(starts_removed_from_the_queue_do_not_run) {
	struct lab *lab = *state;

	add(lab, 0, LIMIT + 2, false);
	weir_health_starts_remove(&lab->starts, &lab->start[LIMIT]);
	end(lab, 0);
	assert_int_equal(lab->start[LIMIT].state, WEIR_HEALTH_START_NONE);
	assert_int_equal(lab->start[LIMIT + 1].state, WEIR_HEALTH_START_RUNNING);
	assert_int_equal(lab->starts.running, LIMIT);
}

TEST(starts_of_failing_backends_have_half) {
	struct lab *lab = *state;

	assert_int_equal(add(lab, 0, LIMIT, true), LIMIT / 2);
	assert_int_equal(add(lab, LIMIT, STARTS, false), LIMIT / 2);
}

// While other starts wait, at most an eighth of the running checks may be checks of failing
// backends. If more are running, other checks start when these checks end.
TEST(starts_of_failing_backends_have_an_eighth_while_others_wait) {
	struct lab *lab = *state;

	assert_int_equal(add(lab, 0, LIMIT / 2, true), LIMIT / 2);
	add(lab, LIMIT, STARTS, false);
	add(lab, LIMIT / 2, LIMIT, true);
	for (uint32_t i = 0; i < LIMIT / 2; i++) {
		end(lab, i);
	}
	assert_int_equal(lab->starts.running, LIMIT);
	assert_int_equal(lab->starts.running_failing, LIMIT / 8);
}

TEST(starts_cost_more_when_descriptors_are_scarce) {
	struct lab *lab = *state;

	limit_descriptors(lab, 512);
	assert_int_equal(add(lab, 0, LIMIT, false), 512 / 2);
	limit_descriptors(lab, lab->limit.rlim_cur);
	for (uint32_t i = 0; i < LIMIT; i++) { // each removal releases the full cost of its start
		weir_health_starts_remove(&lab->starts, &lab->start[i]);
	}
	assert_int_equal(lab->starts.running, 0);
}

TEST(starts_that_wait_for_longer_than_their_interval_are_late) {
	struct lab *lab = *state;
	uint64_t ms = 1;

	assert_int_equal(weir_health_starts_late(&lab->starts, -1, 0, &ms), 0);
	assert_int_equal(ms, 0);
	for (uint32_t i = 0; i < LIMIT + 3; i++) {
		lab->start[i].due_ms = 1000 + i - LIMIT / 2;
		lab->start[i].interval_ms = 500;
	}
	add(lab, 0, LIMIT + 1, false);
	add(lab, LIMIT + 1, LIMIT + 3, true);
	// the first of three waiting starts is due at 1000 + LIMIT / 2
	assert_int_equal(weir_health_starts_late(&lab->starts, -1, 1500 + LIMIT / 2, &ms), 0);
	assert_int_equal(weir_health_starts_late(&lab->starts, -1, 1501 + LIMIT / 2, &ms), 1);
	assert_int_equal(ms, 501);
	assert_int_equal(weir_health_starts_late(&lab->starts, -1, 1600 + LIMIT / 2, &ms), 3);
	assert_int_equal(ms, 600);
}

TEST(limits_of_two_kinds_of_starts_are_separate) {
	struct lab *lab = *state;
	struct weir_health_starts few;
	struct weir_health_start start[6] = {0};

	weir_health_starts_init(&few, 4, run);
	add(lab, 0, LIMIT + 2, false);
	for (uint32_t i = 0; i < 6; i++) {
		weir_health_starts_add(&few, &start[i], false, 0);
	}
	assert_int_equal(start[3].state, WEIR_HEALTH_START_RUNNING);
	assert_int_equal(start[4].state, WEIR_HEALTH_START_QUEUED);
	weir_health_starts_remove(&few, &start[0]);
	weir_health_starts_run(&few);
	assert_int_equal(start[4].state, WEIR_HEALTH_START_RUNNING);
	assert_int_equal(start[5].state, WEIR_HEALTH_START_QUEUED);
}

TEST_EACH(setup, teardown);
