// SPDX-License-Identifier: BSD-3-Clause
//
// Tests HTTP checks with several URLs, against nginx.
#include <stdlib.h>
#include <string.h>

#include "health.h"
#include "http_lab.h"
#include "watch_lab.h"

#define BACKEND 7

struct run {
	uv_loop_t loop;
	struct weir_health *health;
	struct weir_health_status status;
	bool reported;
	struct weir_report report;
};

static void on_health(
	void *context, uint16_t backend, enum weir_health_verdict verdict, const char *detail) {
	(void)context;
	(void)backend;
	(void)verdict;
	(void)detail;
}

static void on_report(
	void *context, uint16_t backend, const struct weir_report *report, const char *source) {
	struct run *run = context;

	(void)backend;
	(void)source;
	run->reported = true;
	run->report = *report;
}

static bool is_checked(void *context) {
	struct run *run = context;

	return weir_health_status(run->health, BACKEND, false, &run->status) == 0 &&
	       run->status.checked;
}

// Runs the check once.
static struct run check_once(struct weir_config_health_check *check) {
	struct weir_health_target target = {.backend = BACKEND,
		.port = NGINX_PORT,
		.address = watch_lab_address("127.0.0.1"),
		.check = check};
	struct run run = {.reported = false};

	check->interval_ms = 60000;
	check->rise = check->fall = 1;
	uv_loop_init(&run.loop);
	assert_int_equal(weir_health_create(&run.loop, on_health, on_report, &run, &run.health), 0);
	assert_int_equal(weir_health_configure(run.health, &target, 1), 0);
	weir_health_restart(run.health, BACKEND); // starts the check at once
	watch_lab_run(&run.loop, is_checked, &run, 10000, check->url.path);
	weir_health_free(run.health);
	watch_lab_close(&run.loop);
	return run;
}

static void expect_once(struct weir_config_health_check *check, bool passed, const char *detail) {
	const struct run run = check_once(check);

	assert_string_equal(run.status.detail, detail);
	assert_int_equal(run.status.passed, passed);
	assert_int_equal(run.status.passes + run.status.fails, 1);
}

TEST_GROUP(http_lab_start, http_lab_stop);

TEST(urls_are_requested_until_one_fails) {
	struct weir_config_url urls[] = {
		{.path = "/moved", .status_first = 301, .status_last = 301},
		{.path = "/healthz", .status_first = 200, .status_last = 299, .body_regex = "^ok"},
	};
	struct weir_config_health_check check = check_of("/healthz");

	check.urls = urls;
	check.url_count = 2;
	strcpy(check.url.body, "ok"); // belongs to the first URL
	expect_once(&check, true, "HTTP 200");
	urls[0].status_last = urls[0].status_first = 302;
	expect_once(&check, false, "/moved: HTTP 301, expected 302 to 302");
	urls[0].status_first = 200;
	strcpy(urls[1].body_regex, "^k");
	expect_once(&check, false, "/healthz: HTTP 200, body does not match \"^k\"");
	strcpy(urls[1].body_regex, "^the complete text of the answer of a server");
	expect_once(&check, false,
		"/healthz: HTTP 200, body does not match \"^the complete text of the answer of a "
		"server\"");
	strcpy(check.url.path, "/broken");
	expect_once(&check, false, "HTTP 503");
}

TEST(each_url_has_the_timeout) {
	struct weir_config_url url = {.path = "/large", .status_first = 200, .status_last = 299};
	struct weir_config_health_check check = check_of("/healthz");

	strcpy(url.body, "not in it");
	check.urls = &url;
	check.url_count = 1;
	check.timeout_ms = 300;
	expect_once(&check, false, "/large: timeout after 300 ms");
}

// A state in any answer ends the check. Load and remarks are those of the first answer.
TEST(reports_of_several_urls) {
	struct weir_config_url url = {.path = "/lame", .status_first = 200, .status_last = 299};
	struct weir_config_health_check check = check_of("/loaded");
	struct run run;

	check.orca = true;
	check.urls = &url;
	check.url_count = 1;
	run = check_once(&check);
	assert_string_equal(run.status.detail, "/lame: HTTP 503, lame-duck");
	assert_true(run.status.passed);
	assert_int_equal(run.report.word, WEIR_HEALTH_WORD_LAME_DUCK);
	assert_true((run.report.given & WEIR_REPORT(REQUESTS)) != 0);
	strcpy(url.path, "/healthz");
	run = check_once(&check);
	assert_string_equal(run.status.detail,
		"HTTP 200; X-Weir-State: unknown state \"drain\", use "
		"\"lame-duck\"");
	assert_true(run.reported);
	assert_int_equal(run.report.word, WEIR_HEALTH_WORD_NONE);
	assert_true((run.report.given & WEIR_REPORT(REQUESTS)) != 0);
	strcpy(check.url.path, "/lame");
	strcpy(url.path, "/broken");
	run = check_once(&check);
	assert_string_equal(run.status.detail, "HTTP 503, lame-duck");
	assert_true(run.status.passed);
}
