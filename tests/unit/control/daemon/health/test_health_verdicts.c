// SPDX-License-Identifier: BSD-3-Clause
//
// Tests how results of health checks become verdicts, and which results do not count.
#include <stdio.h>
#include <sys/resource.h>

#include "health_lab.h"

TEST_GROUP(health_lab_enter);
TEST_EACH(health_lab_setup, health_lab_teardown);

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

TEST(health_of_a_starting_backend_that_fails_is_refusing) {
	struct lab *lab = *state;

	close_port(lab);
	add(lab, 7, "127.0.0.1");
	configure(lab);
	wait_for_call(lab);
	assert_int_equal(lab->verdict, WEIR_HEALTH_VERDICT_FAILING);
	assert_int_equal(status_of(lab, 7).fails, 3);
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

// The target of a check changes, and the first check of the new target has no result.
TEST(health_result_of_the_former_target_does_not_count) {
	struct lab *lab = *state;

	weir_health_on_failed(lab->health, excuse);
	add(lab, 7, "127.0.0.1");
	configure(lab);
	wait_for_call(lab);
	weir_health_set_far(lab->health, 7, true);
	close_port(lab);
	lab->no_link = true;
	lab->check.timeout_ms++;
	configure(lab);
	watch_lab_run(&lab->loop, is_excused_four_times, lab, 5000, "no results");
	assert_int_equal(status_of(lab, 7).verdict, WEIR_HEALTH_VERDICT_PASSING);
	assert_false(status_of(lab, 7).passed);
	assert_int_equal(status_of(lab, 7).interval_ms, lab->check.interval_ms);
}
