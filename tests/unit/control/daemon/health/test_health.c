// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the schedule and the states of health checks, against real sockets in a network namespace
// of this process. Needs root.
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health.h"
#include "watch_lab.h"

#define IDS 4096
#define PORT 8200

struct lab {
	uv_loop_t loop;
	struct weir_health *health;
	int listener; // -1 = the port is closed
	int calls;
	uint16_t backend; // arguments of the last callback
	enum weir_health_verdict verdict;
	char detail[WEIR_HEALTH_DETAIL_BYTES];
	struct weir_config_health_check check;
	struct weir_health_target targets[IDS];
	uint32_t target_count;
	bool clear_in_callback;
	bool no_link; // the link to the backend is down
	unsigned int excused;
};

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	struct lab *lab = context;

	lab->calls++;
	lab->backend = backend;
	lab->verdict = verdict;
	strncpy(lab->detail, detail, sizeof(lab->detail) - 1);
	if (lab->clear_in_callback) {
		assert_int_equal(weir_health_configure(lab->health, NULL, 0), 0);
	}
}

static void open_port(struct lab *lab) {
	struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_port = htons(PORT)};
	int one = 1;

	lab->listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(lab->listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(lab->listener, (struct sockaddr *)&any, sizeof(any)), 0);
	assert_int_equal(listen(lab->listener, 4096), 0);
}

static void close_port(struct lab *lab) {
	close(lab->listener);
	lab->listener = -1;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	(void)context;
	(void)report;
	fail_msg("backend %u said something by %s", backend, source);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	uv_loop_init(&lab->loop);
	assert_int_equal(
		weir_health_create(&lab->loop, on_health, on_report, lab, &lab->health), 0);
	lab->check = (struct weir_config_health_check){
		.type = WEIR_CHECK_TCP,
		.interval_ms = 20,
		.timeout_ms = 500,
		.rise = 2,
		.fall = 3,
	};
	open_port(lab);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_free(lab->health);
	watch_lab_close(&lab->loop);
	if (lab->listener >= 0) {
		close(lab->listener);
	}
	free(lab);
	return 0;
}

static void add(struct lab *lab, uint16_t backend, const char *address) {
	lab->targets[lab->target_count++] = (struct weir_health_target){
		.backend = backend,
		.port = PORT,
		.address = watch_lab_address(address),
		.check = &lab->check,
		.initial = WEIR_HEALTH_VERDICT_UNKNOWN,
	};
}

static int configure(struct lab *lab) {
	return weir_health_configure(lab->health, lab->targets, lab->target_count);
}

static struct weir_health_status status_of(struct lab *lab, uint16_t backend) {
	struct weir_health_status status;

	assert_int_equal(weir_health_status(lab->health, backend, false, &status), 0);
	return status;
}

static bool was_called(void *context) {
	return ((struct lab *)context)->calls > 0;
}

static void wait_for_call(struct lab *lab) {
	lab->calls = 0;
	watch_lab_run(&lab->loop, was_called, lab, 5000, "callback");
}

// --- states -------------------------------------------------------------------------------

static void rise_and_fall(struct lab *lab, const char *address) {
	struct weir_health_status status;

	add(lab, 7, address);
	assert_int_equal(configure(lab), 0);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_UNKNOWN);
	assert_false(status_of(lab, 7).checked);
	wait_for_call(lab);
	assert_int_equal(lab->backend, 7);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_string_equal(lab->detail, "connected");
	assert_int_equal(status_of(lab, 7).passes, 2);

	close_port(lab);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_string_equal(lab->detail, "connection refused");
	status = status_of(lab, 7);
	assert_int_equal(status.verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(status.fails, 3);
	assert_int_equal(status.streak, 3);
	assert_true(status.checked);
	assert_false(status.passed);
	assert_string_equal(status.detail, "connection refused");
	assert_true(status.age_ms < 1000);

	open_port(lab);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_int_equal(status_of(lab, 7).streak, 2);
}

TEST(health_rises_and_falls_over_ipv4) {
	rise_and_fall(*state, "127.0.0.1");
}

TEST(health_rises_and_falls_over_ipv6) {
	rise_and_fall(*state, "::1");
}

static bool has_failed_twice(void *context) {
	return status_of(context, 7).streak == 2 && !status_of(context, 7).passed;
}

static bool has_passed(void *context) {
	return status_of(context, 7).passed;
}

// Two failures are followed by passes. The backend stays healthy, because fall is 3. Afterwards,
// failures are counted from 0 again.
TEST(health_survives_fewer_failures_than_fall) {
	struct lab *lab = *state;

	lab->check.interval_ms = 100;
	add(lab, 7, "127.0.0.1");
	configure(lab);
	wait_for_call(lab);
	lab->calls = 0;
	for (int i = 0; i < 2; i++) {
		close_port(lab);
		watch_lab_run(&lab->loop, has_failed_twice, lab, 5000, "two failures");
		open_port(lab);
		watch_lab_run(&lab->loop, has_passed, lab, 5000, "a pass");
	}
	assert_int_equal(lab->calls, 0);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);
}

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
	assert_int_equal(status_of(lab, 7).streak, 3);
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

TEST(health_of_a_starting_backend_that_fails_is_refusing) {
	struct lab *lab = *state;

	close_port(lab);
	add(lab, 7, "127.0.0.1");
	configure(lab);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(status_of(lab, 7).fails, 3);
}

static bool has_passed_ten_times(void *context) {
	return status_of(context, 7).passes >= 10;
}

// A new control process starts with the states of the former process, and does not report them as
// changes.
TEST(health_starts_in_the_initial_state) {
	struct lab *lab = *state;

	add(lab, 7, "127.0.0.1");
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_PASSING;
	configure(lab);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	assert_int_equal(lab->calls, 0);
}

static bool has_ended(void *context) {
	return status_of(context, 7).checked;
}

// Control has no free descriptors, so checks give no result about the backend.
TEST(health_local_failures_do_not_count) {
	struct lab *lab = *state;
	struct rlimit before, none;

	lab->check.fall = 1;
	add(lab, 7, "127.0.0.1");
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_PASSING;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	configure(lab);
	uv_run(&lab->loop, UV_RUN_NOWAIT);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch_lab_run(&lab->loop, has_ended, lab, 5000, "one check");
	watch_lab_idle(&lab->loop, 100);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(lab->calls, 0);
	assert_int_equal(status_of(lab, 7).fails, 0);
	assert_string_equal(status_of(lab, 7).detail, "too many open files");
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	assert_int_equal(weir_health_unchecked_ms(lab->health, 7), 0);
}

static bool is_unchecked(void *context) {
	return weir_health_unchecked_ms(((struct lab *)context)->health, 7) > 0;
}

static bool is_checked_again(void *context) {
	return !is_unchecked(context);
}

// A backend is unchecked if several of its checks in a row had no result. This ends when a check
// has a result. A check with changed parameters has no result yet.
TEST(health_without_results_is_unchecked) {
	struct lab *lab = *state;
	struct rlimit before, none;
	uint64_t begun_ms, ms;

	add(lab, 7, "127.0.0.1");
	configure(lab);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	begun_ms = uv_hrtime() / 1000000;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	watch_lab_run(&lab->loop, is_unchecked, lab, 5000, "no results");
	ms = uv_hrtime() / 1000000 - begun_ms;
	assert_true(ms > (WEIR_HEALTH_UNCHECKED - 1) * lab->check.interval_ms * 9 / 10);
	assert_true(weir_health_unchecked_ms(lab->health, 7) + 1 >= ms);
	lab->check.interval_ms *= 2;
	configure(lab);
	assert_true(is_unchecked(lab));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	watch_lab_run(&lab->loop, is_checked_again, lab, 5000, "a result");
	assert_int_equal(weir_health_unchecked_ms(lab->health, 8), 0);
}

static bool excuse(void *context, uint16_t backend, uint64_t took_ms, uint32_t timeout_ms,
	char *why, size_t bytes) {
	struct lab *lab = context;

	assert_int_equal(backend, 7);
	assert_true(took_ms <= 5000);
	assert_int_equal(timeout_ms, lab->check.timeout_ms);
	snprintf(why, bytes, "%s", lab->no_link ? "no link" : "");
	lab->excused += lab->no_link;
	return lab->no_link;
}

static bool is_excused_four_times(void *context) {
	return ((struct lab *)context)->excused >= 4;
}

TEST(health_failures_without_a_link_do_not_count) {
	struct lab *lab = *state;

	weir_health_on_failed(lab->health, excuse);
	lab->check.fall = 2;
	add(lab, 7, "127.0.0.1");
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_PASSING;
	lab->no_link = true;
	configure(lab);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	assert_int_equal(lab->excused, 0); // only failures are excused
	close_port(lab);
	watch_lab_run(&lab->loop, is_excused_four_times, lab, 5000, "no results");
	assert_int_equal(lab->calls, 0);
	assert_int_equal(status_of(lab, 7).fails, 0);
	assert_true(status_of(lab, 7).without_result);
	assert_string_equal(status_of(lab, 7).detail, "no link");
	lab->no_link = false;
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_string_not_equal(lab->detail, "no link");
}

// --- configuring --------------------------------------------------------------------------

TEST(health_configure_continues_unchanged_checks) {
	struct lab *lab = *state;
	struct weir_config_health_check same = lab->check;
	uint64_t passes;

	add(lab, 7, "127.0.0.1");
	add(lab, 8, "127.0.0.1");
	configure(lab);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	passes = status_of(lab, 7).passes;
	lab->targets[0].check = &same; // another object with the same parameters
	// the initial verdict is no longer relevant
	lab->targets[0].initial = WEIR_HEALTH_VERDICT_FAILING;
	lab->calls = 0;
	configure(lab);
	assert_int_equal(status_of(lab, 7).passes, passes);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);

	same.timeout_ms++;
	configure(lab);
	assert_int_equal(status_of(lab, 7).passes, 0);
	assert_false(status_of(lab, 7).checked);
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_true(status_of(lab, 8).passes > 0);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	assert_int_equal(lab->calls, 0);
}

TEST(health_configure_drops_unlisted_checks) {
	struct lab *lab = *state;
	struct weir_health_status status;

	add(lab, 7, "127.0.0.1");
	add(lab, 8, "127.0.0.1");
	configure(lab);
	watch_lab_run(&lab->loop, has_passed_ten_times, lab, 5000, "ten passes");
	lab->target_count = 1;
	configure(lab);
	assert_int_equal(weir_health_status(lab->health, 8, false, &status), -ENOENT);
	lab->check.type = WEIR_CHECK_NONE;
	configure(lab);
	assert_int_equal(weir_health_status(lab->health, 7, false, &status), -ENOENT);
	lab->calls = 0;
	close_port(lab);
	watch_lab_idle(&lab->loop, 150);
	assert_int_equal(lab->calls, 0);
	assert_int_equal(weir_health_status(lab->health, 65535, false, &status), -ENOENT);
}

TEST(health_callback_may_configure) {
	struct lab *lab = *state;
	struct weir_health_status status;

	lab->clear_in_callback = true;
	for (uint16_t i = 0; i < 20; i++) {
		add(lab, i, i % 2 ? "127.0.0.1" : "::1");
	}
	configure(lab);
	wait_for_call(lab);
	watch_lab_idle(&lab->loop, 100);
	assert_int_equal(lab->calls, 1);
	assert_int_equal(weir_health_status(lab->health, 3, false, &status), -ENOENT);
}

TEST(health_configure_refuses_invalid_input_as_a_whole) {
	struct lab *lab = *state;
	struct weir_config_health_check bad = lab->check;
	struct weir_health_status status;

	add(lab, 7, "127.0.0.1");
	add(lab, 7, "127.0.0.1");
	assert_int_equal(configure(lab), -EINVAL); // the same backend twice
	lab->targets[1].backend = 8;
	lab->targets[1].check = &bad;
	bad.interval_ms = 0;
	assert_int_equal(configure(lab), -EINVAL);
	bad = lab->check;
	bad.rise = 0;
	assert_int_equal(configure(lab), -EINVAL);
	bad = lab->check;
	lab->targets[1].port = 0;
	assert_int_equal(configure(lab), -EINVAL);
	lab->targets[1].port = 1;
	lab->targets[1].address.family = 0;
	assert_int_equal(configure(lab), -EINVAL);
	lab->targets[1].address.family = 4;
	lab->targets[1].backend = WEIR_BACKEND_NONE;
	assert_int_equal(configure(lab), -EINVAL);
	assert_int_equal(weir_health_status(lab->health, 7, false, &status), -ENOENT);
}

// --- many ---------------------------------------------------------------------------------

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

static uint64_t all_passes(struct lab *lab) {
	uint64_t passes = 0;

	for (uint32_t i = 0; i < lab->target_count; i++) {
		passes += status_of(lab, lab->targets[i].backend).passes;
	}
	return passes;
}

// 3900 backends do not answer. Each of their checks lasts 400 ms, and not all of them can run at
// once. Nevertheless each of 100 other backends is checked five times in two seconds.
TEST(health_of_refusing_backends_delays_no_others) {
	struct lab *lab = *state;
	struct rlimit limit;
	uint64_t before;

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
	watch_lab_idle(&lab->loop, 2500);
	assert_int_equal(status_of(lab, 3999).verdict, WEIR_HEALTH_VERDICT_FAILING);
	before = all_passes(lab);
	watch_lab_idle(&lab->loop, 2000);
	assert_true(all_passes(lab) - before >= 350);
	assert_true(status_of(lab, 3999).fails > 1);
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
		now = all_passes(lab);
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

static int enter(void **state) {
	int r = watch_lab_enter(state);

	if (!r) {
		watch_lab_make_hole();
	}
	return r;
}

TEST_GROUP(enter);
TEST_EACH(setup, teardown);

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
