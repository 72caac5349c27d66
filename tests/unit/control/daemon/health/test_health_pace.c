// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the pace and the schedule of health checks, of one backend and of many in flight.
#include <dirent.h>
#include <sys/resource.h>

#include "health_lab.h"

TEST_GROUP(health_lab_enter);
TEST_EACH(health_lab_setup, health_lab_teardown);

static uint64_t checks_of(struct lab *lab, uint16_t backend) {
	struct weir_health_status status = status_of(lab, backend);

	return status.passes + status.fails;
}

static bool are_both_healthy(void *context) {
	return status_of(context, 7).verdict == WEIR_HEALTH_VERDICT_PASSING &&
	       status_of(context, 8).verdict == WEIR_HEALTH_VERDICT_PASSING;
}

// A backend that is neither a member of the subset nor a spare ("far") is checked ten times less
// often.
TEST(health_of_far_backends_is_checked_less_often) {
	struct lab *lab = *state;
	uint64_t near, far;

	add(lab, 7, "127.0.0.1");
	add(lab, 8, "::1");
	configure(lab);
	weir_health_set_far(lab->health, 7, true);
	// this backend is not checked, so the call has no effect
	weir_health_set_far(lab->health, 999, true);
	assert_int_equal(status_of(lab, 7).interval_ms, 20); // the backend's state is not known yet
	watch_lab_run(&lab->loop, are_both_healthy, lab, 5000, "both healthy");
	assert_int_equal(status_of(lab, 7).interval_ms, 20 * WEIR_HEALTH_FAR_INTERVALS);
	assert_int_equal(status_of(lab, 8).interval_ms, 20);
	far = checks_of(lab, 7);
	near = checks_of(lab, 8);
	watch_lab_idle(&lab->loop, 2000);
	far = checks_of(lab, 7) - far;
	near = checks_of(lab, 8) - near;
	assert_true(far >= 2 && far <= 2000 / (20 * WEIR_HEALTH_FAR_INTERVALS) + 1);
	assert_true(near > 3 * far);
}

// A "far" backend is checked at the configured interval again as soon as one of its checks fails,
// or, if the backend is refusing, as soon as a check passes.
TEST(health_of_far_backends_changes_at_full_speed) {
	struct lab *lab = *state;

	add(lab, 7, "127.0.0.1");
	configure(lab);
	weir_health_set_far(lab->health, 7, true);
	wait_for_call(lab);
	close_port(lab);
	watch_lab_run(&lab->loop, has_failed_twice, lab, 5000, "two failures");
	assert_int_equal(status_of(lab, 7).interval_ms, 20);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(status_of(lab, 7).interval_ms, 20 * WEIR_HEALTH_FAR_INTERVALS);
	open_port(lab);
	watch_lab_run(&lab->loop, has_passed, lab, 5000, "a pass");
	assert_int_equal(status_of(lab, 7).interval_ms, 20);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
}

static bool has_failed(void *context) {
	return status_of(context, 7).streak == 1 && !status_of(context, 7).passed;
}

// After a failed check the next check follows after the retry interval, until `fall` is reached or
// a check passes. All other checks follow after the usual interval.
TEST(health_of_failed_checks_is_retried) {
	struct lab *lab = *state;
	uint64_t begin;

	lab->check.interval_ms = 1000;
	lab->check.retry_interval_ms = 50;
	lab->check.rise = 1;
	add(lab, 7, "127.0.0.1");
	configure(lab);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(status_of(lab, 7).interval_ms, 1000);
	close_port(lab);
	watch_lab_run(&lab->loop, has_failed, lab, 5000, "a failure");
	assert_int_equal(status_of(lab, 7).interval_ms, 50);
	begin = uv_hrtime();
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_true(uv_hrtime() - begin >= 90000000);
	assert_true(uv_hrtime() - begin < 900000000); // without retries it would take two intervals
	assert_int_equal(status_of(lab, 7).interval_ms, 1000);
	assert_int_equal(checks_of(lab, 7) - status_of(lab, 7).passes, 3);
	watch_lab_idle(&lab->loop, 400); // no further retries
	assert_true(status_of(lab, 7).fails <= 4);

	open_port(lab);
	watch_lab_run(&lab->loop, has_passed, lab, 5000, "a pass");
	close_port(lab);
	watch_lab_run(&lab->loop, has_failed, lab, 5000, "a failure");
	open_port(lab);
	begin = uv_hrtime();
	watch_lab_run(&lab->loop, has_passed, lab, 5000, "a retry that passes");
	assert_true(uv_hrtime() - begin < 500000000);
	assert_int_equal(status_of(lab, 7).interval_ms, 1000);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);
}

// When a server is restarted, its checks are counted from 0. They begin at once, and not after the
// interval. Later checks follow at the usual interval.
TEST(health_of_a_restarted_server_is_checked_at_once) {
	struct lab *lab = *state;
	uint64_t begin;

	lab->check.interval_ms = 4000;
	lab->check.rise = 3;
	add(lab, 7, "127.0.0.1");
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_PASSING;
	configure(lab);
	watch_lab_run(&lab->loop, has_passed, lab, 5000, "a pass");
	lab->calls = 0;
	begin = uv_hrtime();
	weir_health_restart(lab->health, 7);
	// this backend is not checked, so the call has no effect
	weir_health_restart(lab->health, 999);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_UNKNOWN);
	assert_int_equal(lab->calls, 0);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_in_range(status_of(lab, 7).streak, 3, 4);
	assert_true(uv_hrtime() - begin >= 2 * WEIR_HEALTH_QUICK_MS * 900000ull);
	assert_true(uv_hrtime() - begin < 7000 * 1000000ull); // 8 s at the usual interval
	assert_int_equal(status_of(lab, 7).interval_ms, 4000);
	watch_lab_idle(&lab->loop, 4 * WEIR_HEALTH_QUICK_MS);
	assert_true(status_of(lab, 7).passes <= 5); // one regular check may have followed
}

// The first check after the restart fails, because the server does not listen yet. Further checks
// follow at the usual interval.
TEST(health_of_a_restarted_server_that_fails_keeps_its_pace) {
	struct lab *lab = *state;

	lab->check.interval_ms = 4000;
	add(lab, 7, "127.0.0.1");
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_FAILING;
	configure(lab);
	watch_lab_run(&lab->loop, has_passed, lab, 5000, "a pass");
	close_port(lab);
	weir_health_restart(lab->health, 7);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_FAILING);
	watch_lab_run(&lab->loop, has_failed, lab, 1000, "a failure");
	assert_int_equal(status_of(lab, 7).interval_ms, 4000);
	open_port(lab);
	weir_health_restart(lab->health, 7);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
}

static bool has_more_checks(void *context) {
	struct lab *lab = context;

	return checks_of(lab, 7) > 2;
}

// A backend that is no longer "far" is checked soon, before the next check at the long interval is
// due.
TEST(health_of_a_backend_that_becomes_near_is_checked_soon) {
	struct lab *lab = *state;
	uint64_t begin;

	lab->check.interval_ms = 400;
	add(lab, 7, "127.0.0.1");
	configure(lab);
	weir_health_set_far(lab->health, 7, true);
	wait_for_call(lab);
	assert_int_equal(checks_of(lab, 7), 2);
	weir_health_set_far(lab->health, 7, false);
	begin = uv_hrtime();
	watch_lab_run(&lab->loop, has_more_checks, lab, 5000, "the next check");
	assert_true(uv_hrtime() - begin < 1000 * 1000000ull);
}

static unsigned int open_descriptors(void) {
	DIR *dir = opendir("/proc/self/fd");
	unsigned int count = 0;

	while (readdir(dir) != NULL) {
		count++;
	}
	closedir(dir);
	return count;
}

TEST(health_checks_in_flight_are_bounded) {
	struct lab *lab = *state;
	unsigned int before = open_descriptors(), most = 0;
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	lab->check.timeout_ms = 400; // up to 4000 concurrent checks without the limit
	lab->check.interval_ms = 400;
	for (uint16_t i = 0; i < 4000; i++) {
		add(lab, i, i % 2 ? WATCH_LAB_HOLE4 : WATCH_LAB_HOLE6);
	}
	configure(lab);
	for (int i = 0; i < 20; i++) {
		unsigned int now;

		watch_lab_idle(&lab->loop, 40);
		now = open_descriptors() - before;
		most = now > most ? now : most;
	}
	assert_in_range(most, WEIR_HEALTH_CONCURRENT * 3 / 4, WEIR_HEALTH_CONCURRENT + 4);
}

struct sum {
	uint64_t passes, fails;
};

static struct sum sum_of(struct lab *lab, uint16_t first, uint16_t end) {
	struct sum sum = {0};

	for (uint16_t i = first; i < end; i++) {
		sum.passes += status_of(lab, i).passes;
		sum.fails += status_of(lab, i).fails;
	}
	return sum;
}

struct wanted {
	struct lab *lab;
	uint64_t passes; // of the first 100 backends
};

static bool have_passed(void *context) {
	const struct wanted *wanted = context;

	return sum_of(wanted->lab, 0, 100).passes >= wanted->passes;
}

static bool all_are_failing(void *context) {
	struct lab *lab = context;

	for (uint16_t i = 100; i < 4000; i++) {
		if (status_of(lab, i).verdict != WEIR_HEALTH_VERDICT_FAILING) {
			return false;
		}
	}
	return true;
}

// 3900 backends do not answer. Each of their checks lasts 400 ms, and not all of them can run at
// once. Nevertheless 100 other backends are checked more than twice as often.
TEST(health_of_refusing_backends_delays_no_others) {
	struct lab *lab = *state;
	struct rlimit limit;
	uint64_t passes, fails;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	lab->check.timeout_ms = 400;
	lab->check.interval_ms = 400;
	lab->check.fall = 1;
	for (uint16_t i = 0; i < 100; i++) {
		add(lab, i, "127.0.0.1");
	}
	for (uint16_t i = 100; i < 4000; i++) {
		add(lab, i, WATCH_LAB_HOLE4);
	}
	configure(lab);
	watch_lab_run(&lab->loop, all_are_failing, lab, 30000, "a failure of each backend");
	passes = sum_of(lab, 0, 100).passes;
	fails = sum_of(lab, 100, 4000).fails;
	watch_lab_run(
		&lab->loop, have_passed, &(struct wanted){lab, passes + 350}, 30000, "passes");
	passes = sum_of(lab, 0, 100).passes - passes;
	fails = sum_of(lab, 100, 4000).fails - fails;
	assert_true(passes * 39 > 2 * fails); // checks per backend: more than twice as many
	assert_true(fails > 0);
}

// 1000 backends are checked each second. About one check is started each millisecond, in the first
// and in the second round.
TEST(health_checks_of_many_are_spread_over_the_interval) {
	struct lab *lab = *state;
	uint64_t start = uv_hrtime(), last = start, before = 0;

	lab->check.interval_ms = 1000;
	for (uint16_t i = 0; i < 1000; i++) {
		add(lab, i, "127.0.0.1");
	}
	configure(lab);
	while (last - start < 2000 * 1000000ull) {
		uint64_t now_ns, now;

		watch_lab_idle(&lab->loop, 50);
		now_ns = uv_hrtime();
		now = sum_of(lab, 0, (uint16_t)lab->target_count).passes;
		assert_in_range(now - before, 0, 8 * (now_ns - last) / 1000000);
		before = now;
		last = now_ns;
	}
	assert_in_range(before, 1500, 1050 * (last - start) / 1000000000);
}

TEST(health_free_in_flight_calls_nothing) {
	struct lab *lab = *state;

	lab->check.timeout_ms = 100;
	lab->check.fall = 1;
	for (uint16_t i = 0; i < 1000; i++) {
		add(lab, i, WATCH_LAB_HOLE4);
	}
	configure(lab);
	watch_lab_idle(&lab->loop, 60);
	weir_health_free(lab->health);
	lab->health = NULL;
	lab->calls = 0;
	watch_lab_idle(&lab->loop, 200);
	assert_int_equal(lab->calls, 0);
}

// The checks of one configuration start together. Later they are spread over the interval.
TEST(checks_get_different_offsets) {
	struct lab *lab = *state;
	unsigned int twice = 0;

	lab->check.interval_ms = 1000;
	for (uint16_t i = 0; i < 100; i++) {
		add(lab, i, "127.0.0.1");
	}
	assert_int_equal(configure(lab), 0);
	watch_lab_idle(&lab->loop, 900);
	for (uint16_t i = 0; i < 100; i++) {
		assert_true(status_of(lab, i).passes >= 1);
		twice += status_of(lab, i).passes >= 2;
	}
	assert_in_range(twice, 10, 90);
}
