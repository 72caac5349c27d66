// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log_limit.h"

static uint64_t test_ms; // the clock of these tests

static uint64_t test_clock(void) {
	return test_ms;
}

struct fixture {
	FILE *file;
	struct weir_log log;
	struct weir_log_limit *limit;
	char text[65536];
};

static int set_up(void **state) {
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->file = tmpfile();
	test_ms = 1000;
	*state = fixture;
	fixture->log = (struct weir_log){.fd = fileno(fixture->file), .level = WEIR_LOG_INFO};
	return weir_log_limit_create(&fixture->log, test_clock, &fixture->limit);
}

static int tear_down(void **state) {
	struct fixture *fixture = *state;

	weir_log_limit_free(fixture->limit);
	fclose(fixture->file);
	free(fixture);
	return 0;
}

static const char *written(struct fixture *fixture) {
	ssize_t n = pread(fileno(fixture->file), fixture->text, sizeof(fixture->text) - 1, 0);

	fixture->text[n > 0 ? n : 0] = '\0';
	return fixture->text;
}

static unsigned int lines(struct fixture *fixture) {
	unsigned int count = 0;

	for (const char *c = written(fixture); *c != '\0'; c++) {
		count += *c == '\n';
	}
	return count;
}

static void log_repeats_are_held_back_and_counted(void **state) {
	struct fixture *fixture = *state;

	for (int i = 0; i < 100; i++) {
		weir_log_write(&fixture->log, WEIR_LOG_WARN, "the same");
	}
	assert_int_equal(lines(fixture), WEIR_LOG_BURST);
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "another");
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 1);
	weir_log_limit_tick(fixture->limit);
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 1);
	test_ms += WEIR_LOG_WINDOW_MS;
	weir_log_limit_tick(fixture->limit);
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 2);
	assert_non_null(strstr(
		written(fixture), "the same (95 similar messages suppressed in the last 10 s)"));
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "the same");
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 3);
}

static void log_limit_says_what_it_held_back_when_it_ends(void **state) {
	struct fixture *fixture = *state;

	for (int i = 0; i < WEIR_LOG_BURST + 2; i++) {
		weir_log_write(&fixture->log, WEIR_LOG_WARN, "the same");
	}
	weir_log_limit_free(fixture->limit);
	fixture->limit = NULL;
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 1);
	assert_non_null(strstr(
		written(fixture), "the same (2 similar messages suppressed in the last 0 s)"));
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "the same");
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 2);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(log_repeats_are_held_back_and_counted),
		T(log_limit_says_what_it_held_back_when_it_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
