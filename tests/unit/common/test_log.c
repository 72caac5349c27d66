// SPDX-License-Identifier: BSD-3-Clause
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "log.h"
#include "test.h"

struct lab {
	FILE *file;
	struct weir_log log;
	char text[65536];
	char filtered[64]; // the last line passed to the filter
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	lab->file = tmpfile();
	assert_non_null(lab->file);
	lab->log = (struct weir_log){.fd = fileno(lab->file), .level = WEIR_LOG_INFO};
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

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

TEST(log_line_has_time_level_and_text, setup, teardown) {
	struct lab *lab = *state;
	regex_t pattern;

	weir_log_write(&lab->log, WEIR_LOG_INFO, "backend %s: %s", "web/web-1", "healthy");
	assert_int_equal(regcomp(&pattern,
				 "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\."
				 "[0-9]{3}Z info  backend web/web-1: healthy\n$",
				 REG_EXTENDED | REG_NOSUB),
		0);
	assert_int_equal(regexec(&pattern, written(lab), 0, NULL, 0), 0);
	regfree(&pattern);
}

TEST(log_level_omits_less_urgent_lines, setup, teardown) {
	struct lab *lab = *state;

	weir_log_write(&lab->log, WEIR_LOG_DEBUG, "unseen");
	weir_log_write(&lab->log, WEIR_LOG_INFO, "seen");
	lab->log.level = WEIR_LOG_ERROR;
	weir_log_write(&lab->log, WEIR_LOG_WARN, "unseen");
	weir_log_write(&lab->log, WEIR_LOG_ERROR, "loud");
	assert_null(strstr(written(lab), "unseen"));
	assert_non_null(strstr(written(lab), " info  seen\n"));
	assert_non_null(strstr(written(lab), " error loud\n"));
}

TEST(log_line_cannot_be_forged, setup, teardown) {
	struct lab *lab = *state;

	weir_log_write(
		&lab->log, WEIR_LOG_INFO, "a\n2026-01-01T00:00:00.000Z error b\x1b[2J\x7f\tc");
	assert_int_equal(lines(lab), 1);
	assert_non_null(strstr(written(lab), "a?2026"));
	assert_non_null(strstr(written(lab), "b?[2J? c\n"));
	weir_log_plain(&lab->log, "plain\n\x1b");
	assert_non_null(strstr(written(lab), "plain??\n"));
}

TEST(log_overlong_line_is_truncated, setup, teardown) {
	struct lab *lab = *state;
	char *text = malloc(9001);

	assert_non_null(text);
	memset(text, 'x', 9000);
	text[9000] = '\0';
	weir_log_write(&lab->log, WEIR_LOG_INFO, "%s", text);
	assert_in_range(strlen(written(lab)), 2000, 2200);
	weir_log_write(&lab->log, WEIR_LOG_INFO, "next");
	weir_log_emit(&lab->log, WEIR_LOG_INFO, NULL, text);
	assert_int_equal(lines(lab), 3);
	free(text);
}

static bool refuse_flaps(void *context, enum weir_log_level level, const char *text) {
	struct lab *lab = context;

	assert_int_equal(level, WEIR_LOG_WARN);
	snprintf(lab->filtered, sizeof(lab->filtered), "%s", text);
	return strstr(text, "flap") == NULL;
}

TEST(log_filter_applies_to_lines_of_the_level, setup, teardown) {
	struct lab *lab = *state;

	lab->log.filter = refuse_flaps;
	lab->log.filter_context = lab;
	weir_log_write(&lab->log, WEIR_LOG_DEBUG, "below");
	assert_string_equal(lab->filtered, "");
	weir_log_write(&lab->log, WEIR_LOG_WARN, "flap\n");
	assert_string_equal(lab->filtered, "flap?");
	weir_log_write(&lab->log, WEIR_LOG_WARN, "up");
	assert_int_equal(lines(lab), 1);
	weir_log_emit(&lab->log, WEIR_LOG_WARN, NULL, "2 flaps");
	assert_int_equal(lines(lab), 2);
}

// The file can grow by a few bytes only, as on a full file system.
TEST(log_continues_on_a_new_line, setup, teardown) {
	struct lab *lab = *state;
	struct rlimit before, limit = {.rlim_cur = 10};
	unsigned int lost = 0;

	lab->log.lost = &lost;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	limit.rlim_max = before.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	weir_log_write(&lab->log, WEIR_LOG_INFO, "cut");
	weir_log_write(&lab->log, WEIR_LOG_INFO, "dropped");
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	weir_log_write(&lab->log, WEIR_LOG_INFO, "next");
	assert_int_equal(written(lab)[10], '\n');
	assert_non_null(strstr(lab->text, "log: 2 lines dropped"));
	assert_int_equal(lines(lab), 3);
	assert_int_equal(lost, 0);
}

TEST(log_that_cannot_be_written_returns) {
	struct weir_log log = {.fd = -1, .level = WEIR_LOG_INFO};

	weir_log_write(&log, WEIR_LOG_INFO, "nowhere");
}

// If the reader of the log is stopped and the pipe is full, logging does not block. The number of
// lost lines is reported later.
TEST(log_does_not_wait_for_its_reader) {
	unsigned int lost = 0, count = 0;
	struct weir_log log = {.level = WEIR_LOG_INFO, .lost = &lost};
	char buffer[4096], *at;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	log.fd = fds[1];
	while (lost == 0) { // blocks forever if logging waits until the pipe has room
		weir_log_write(&log, WEIR_LOG_INFO, "line %u", count++);
		assert_true(count < 100000);
	}
	weir_log_write(&log, WEIR_LOG_INFO, "one more");
	assert_int_equal(lost, 2);
	for (unsigned int i = 0; i < 4; i++) {
		assert_true(read(fds[0], buffer, sizeof(buffer)) > 0);
	}
	weir_log_write(&log, WEIR_LOG_INFO, "there is room");
	assert_int_equal(lost, 0);
	close(fds[1]);
	for (ssize_t n, kept = 0;
		(n = read(fds[0], buffer + kept, sizeof(buffer) - 1 - kept)) > 0;) {
		buffer[kept + n] = '\0';
		at = strstr(buffer, "warn  log: 2 lines dropped");
		if (at != NULL && strstr(at, "there is room") != NULL) {
			close(fds[0]);
			return;
		}
		kept = n > 512 ? 512 : n;
		memmove(buffer, buffer + n - kept, (size_t)kept);
	}
	fail_msg("the missing lines are not counted");
}
