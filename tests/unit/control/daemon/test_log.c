// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

static uint64_t test_ms; // the clock of these tests

static uint64_t test_clock(void) {
	return test_ms;
}

struct fixture {
	FILE *file;
	struct weir_log *log;
	char text[65536];
};

static int set_up(void **state) {
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	fixture->file = tmpfile();
	test_ms = 1000;
	*state = fixture;
	return weir_log_create(fileno(fixture->file), WEIR_LOG_INFO, test_clock, &fixture->log);
}

static int tear_down(void **state) {
	struct fixture *fixture = *state;

	weir_log_free(fixture->log);
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

static void log_line_has_time_level_and_text(void **state) {
	struct fixture *fixture = *state;
	regex_t pattern;

	weir_log_write(fixture->log, WEIR_LOG_INFO, "backend %s: %s", "web/web-1", "healthy");
	assert_int_equal(regcomp(&pattern,
				 "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\."
				 "[0-9]{3}Z info  backend web/web-1: healthy\n$",
				 REG_EXTENDED | REG_NOSUB),
		0);
	assert_int_equal(regexec(&pattern, written(fixture), 0, NULL, 0), 0);
	regfree(&pattern);
}

static void log_level_leaves_out_what_is_below(void **state) {
	struct fixture *fixture = *state;

	weir_log_write(fixture->log, WEIR_LOG_DEBUG, "unseen");
	weir_log_write(fixture->log, WEIR_LOG_ERROR, "seen");
	assert_null(strstr(written(fixture), "unseen"));
	assert_non_null(strstr(written(fixture), " error seen\n"));
}

static void log_line_cannot_be_forged(void **state) {
	struct fixture *fixture = *state;

	weir_log_write(
		fixture->log, WEIR_LOG_INFO, "a\n2026-01-01T00:00:00.000Z error b\x1b[2J\x7f");
	assert_int_equal(lines(fixture), 1);
	assert_non_null(strstr(written(fixture), "a?2026"));
	assert_non_null(strstr(written(fixture), "b?[2J?\n"));
}

static void log_overlong_line_is_cut_and_ends(void **state) {
	struct fixture *fixture = *state;
	char *text = malloc(9001);

	memset(text, 'x', 9000);
	text[9000] = '\0';
	weir_log_write(fixture->log, WEIR_LOG_INFO, "%s", text);
	weir_log_write(fixture->log, WEIR_LOG_INFO, "next");
	assert_int_equal(lines(fixture), 2);
	free(text);
}

static void log_repeats_are_held_back_and_counted(void **state) {
	struct fixture *fixture = *state;

	for (int i = 0; i < 100; i++) {
		weir_log_write(fixture->log, WEIR_LOG_WARN, "the same");
	}
	assert_int_equal(lines(fixture), WEIR_LOG_BURST);
	weir_log_write(fixture->log, WEIR_LOG_WARN, "another");
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 1);
	weir_log_tick(fixture->log);
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 1);
	test_ms += WEIR_LOG_WINDOW_MS;
	weir_log_tick(fixture->log);
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 2);
	assert_non_null(strstr(written(fixture), "the same (95 more of these in the last 10 s)"));
	weir_log_write(fixture->log, WEIR_LOG_WARN, "the same");
	assert_int_equal(lines(fixture), WEIR_LOG_BURST + 3);
}

static void log_level_names_are_parsed(void **state) {
	enum weir_log_level level = WEIR_LOG_INFO;

	(void)state;
	assert_int_equal(weir_log_level_parse("debug", &level), 0);
	assert_int_equal(level, WEIR_LOG_DEBUG);
	assert_int_equal(weir_log_level_parse("loud", &level), -EINVAL);
	assert_int_equal(level, WEIR_LOG_DEBUG);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(log_line_has_time_level_and_text),
		T(log_level_leaves_out_what_is_below),
		T(log_line_cannot_be_forged),
		T(log_overlong_line_is_cut_and_ends),
		T(log_repeats_are_held_back_and_counted),
		T(log_level_names_are_parsed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
