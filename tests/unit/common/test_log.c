// SPDX-License-Identifier: BSD-3-Clause
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log.h"

struct fixture {
	FILE *file;
	struct weir_log log;
	char text[65536];
	char filtered[64]; // the line that the filter saw last
};

static int set_up(void **state) {
	struct fixture *fixture = calloc(1, sizeof(*fixture));

	assert_non_null(fixture);
	fixture->file = tmpfile();
	assert_non_null(fixture->file);
	fixture->log = (struct weir_log){.fd = fileno(fixture->file), .level = WEIR_LOG_INFO};
	*state = fixture;
	return 0;
}

static int tear_down(void **state) {
	struct fixture *fixture = *state;

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

	weir_log_write(&fixture->log, WEIR_LOG_INFO, "backend %s: %s", "web/web-1", "healthy");
	assert_int_equal(regcomp(&pattern,
				 "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\."
				 "[0-9]{3}Z info  backend web/web-1: healthy\n$",
				 REG_EXTENDED | REG_NOSUB),
		0);
	assert_int_equal(regexec(&pattern, written(fixture), 0, NULL, 0), 0);
	regfree(&pattern);
}

static void log_level_leaves_out_less_urgent_lines(void **state) {
	struct fixture *fixture = *state;

	weir_log_write(&fixture->log, WEIR_LOG_DEBUG, "unseen");
	weir_log_write(&fixture->log, WEIR_LOG_INFO, "seen");
	fixture->log.level = WEIR_LOG_ERROR;
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "unseen");
	weir_log_write(&fixture->log, WEIR_LOG_ERROR, "loud");
	assert_null(strstr(written(fixture), "unseen"));
	assert_non_null(strstr(written(fixture), " info  seen\n"));
	assert_non_null(strstr(written(fixture), " error loud\n"));
}

static void log_line_cannot_be_forged(void **state) {
	struct fixture *fixture = *state;

	weir_log_write(
		&fixture->log, WEIR_LOG_INFO, "a\n2026-01-01T00:00:00.000Z error b\x1b[2J\x7f\tc");
	assert_int_equal(lines(fixture), 1);
	assert_non_null(strstr(written(fixture), "a?2026"));
	assert_non_null(strstr(written(fixture), "b?[2J? c\n"));
}

static void log_overlong_line_is_cut_and_ends(void **state) {
	struct fixture *fixture = *state;
	char *text = malloc(9001);

	assert_non_null(text);
	memset(text, 'x', 9000);
	text[9000] = '\0';
	weir_log_write(&fixture->log, WEIR_LOG_INFO, "%s", text);
	assert_in_range(strlen(written(fixture)), 2000, 2200);
	weir_log_write(&fixture->log, WEIR_LOG_INFO, "next");
	weir_log_emit(&fixture->log, WEIR_LOG_INFO, text);
	assert_int_equal(lines(fixture), 3);
	free(text);
}

static bool refuse_flaps(void *context, enum weir_log_level level, const char *text) {
	struct fixture *fixture = context;

	assert_int_equal(level, WEIR_LOG_WARN);
	snprintf(fixture->filtered, sizeof(fixture->filtered), "%s", text);
	return strstr(text, "flap") == NULL;
}

static void log_filter_decides_on_lines_of_the_level(void **state) {
	struct fixture *fixture = *state;

	fixture->log.filter = refuse_flaps;
	fixture->log.filter_context = fixture;
	weir_log_write(&fixture->log, WEIR_LOG_DEBUG, "below");
	assert_string_equal(fixture->filtered, "");
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "flap\n");
	assert_string_equal(fixture->filtered, "flap?");
	weir_log_write(&fixture->log, WEIR_LOG_WARN, "up");
	assert_int_equal(lines(fixture), 1);
	weir_log_emit(&fixture->log, WEIR_LOG_WARN, "2 flaps");
	assert_int_equal(lines(fixture), 2);
}

static void log_that_cannot_be_written_returns(void **state) {
	struct weir_log log = {.fd = -1, .level = WEIR_LOG_INFO};

	(void)state;
	weir_log_write(&log, WEIR_LOG_INFO, "nowhere");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(log_line_has_time_level_and_text),
		T(log_level_leaves_out_less_urgent_lines),
		T(log_line_cannot_be_forged),
		T(log_overlong_line_is_cut_and_ends),
		T(log_filter_decides_on_lines_of_the_level),
		cmocka_unit_test(log_that_cannot_be_written_returns),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
