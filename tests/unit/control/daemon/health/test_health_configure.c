// SPDX-License-Identifier: BSD-3-Clause
//
// Tests changes of the configuration of health checks.
#include <errno.h>

#include <string.h>

#include "health_lab.h"

TEST_GROUP(health_lab_enter);
TEST_EACH(health_lab_setup, health_lab_teardown);

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

static bool has_failed(void *context) {
	return status_of(context, 7).fails > 0;
}

// The module has a copy of the URLs, and compares the URLs themselves.
TEST(health_configure_compares_urls) {
	struct lab *lab = *state;
	struct weir_config_url first = {.path = "/a"}, same = first;

	lab->check.type = WEIR_CHECK_HTTP; // the server does not speak HTTP
	strcpy(lab->check.url.path, "/");
	lab->check.urls = &first;
	lab->check.url_count = 1;
	add(lab, 7, "127.0.0.1");
	configure(lab);
	strcpy(first.path, "/b");
	lab->check.urls = &same;
	watch_lab_run(&lab->loop, has_failed, lab, 5000, "a failure");
	configure(lab);
	assert_true(status_of(lab, 7).fails > 0);
	same.status_first = 301;
	configure(lab);
	assert_int_equal(status_of(lab, 7).fails, 0);
	lab->check.url_count = 0;
	watch_lab_run(&lab->loop, has_failed, lab, 5000, "a failure");
	configure(lab);
	assert_int_equal(status_of(lab, 7).fails, 0);
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
