// SPDX-License-Identifier: BSD-3-Clause
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "log_limit.h"
#include "test.h"

static uint64_t test_ms; // the clock of these tests

static uint64_t test_clock(void) {
	return test_ms;
}

struct lab {
	FILE *file;
	struct weir_log log;
	struct weir_log_limit *limit;
	char text[65536];
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	lab->file = tmpfile();
	test_ms = 1000;
	*state = lab;
	lab->log = (struct weir_log){.fd = fileno(lab->file), .level = WEIR_LOG_INFO};
	return weir_log_limit_create(&lab->log, test_clock, &lab->limit);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_log_limit_free(lab->limit);
	fclose(lab->file);
	free(lab);
	return 0;
}

static const char *written(struct lab *lab) {
	ssize_t n = pread(fileno(lab->file), lab->text, sizeof(lab->text) - 1, 0);

	lab->text[n > 0 ? n : 0] = '\0';
	return lab->text;
}

static unsigned int lines(struct lab *lab) {
	unsigned int count = 0;

	for (const char *c = written(lab); *c != '\0'; c++) {
		count += *c == '\n';
	}
	return count;
}

TEST_EACH(setup, teardown);

TEST(log_repeats_are_suppressed_and_counted) {
	struct lab *lab = *state;

	for (int i = 0; i < 100; i++) {
		weir_log_write(&lab->log, WEIR_LOG_WARN, "the same");
	}
	assert_int_equal(lines(lab), WEIR_LOG_BURST);
	weir_log_write(&lab->log, WEIR_LOG_WARN, "another");
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 1);
	weir_log_limit_tick(lab->limit);
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 1);
	test_ms += WEIR_LOG_WINDOW_MS;
	weir_log_limit_tick(lab->limit);
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 2);
	assert_non_null(
		strstr(written(lab), "the same (95 similar messages suppressed in the last 10 s)"));
	weir_log_write(&lab->log, WEIR_LOG_WARN, "the same");
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 3);
}

TEST(log_limit_reports_suppressed_lines_when_it_ends) {
	struct lab *lab = *state;

	for (int i = 0; i < WEIR_LOG_BURST + 2; i++) {
		weir_log_write(&lab->log, WEIR_LOG_WARN, "the same");
	}
	weir_log_limit_free(lab->limit);
	lab->limit = NULL;
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 1);
	assert_non_null(
		strstr(written(lab), "the same (2 similar messages suppressed in the last 0 s)"));
	weir_log_write(&lab->log, WEIR_LOG_WARN, "the same");
	assert_int_equal(lines(lab), WEIR_LOG_BURST + 2);
}
