// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <rte_log.h>

struct lab {
	int fds[2];
	struct weir_log log;
	char text[4096];
};

static int open_lab(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	assert_non_null(lab);
	assert_int_equal(pipe(lab->fds), 0);
	lab->log = (struct weir_log){.fd = lab->fds[1], .level = WEIR_LOG_INFO};
	*state = lab;
	return 0;
}

static int close_lab(void **state) {
	struct lab *lab = *state;

	rte_openlog_stream(NULL);
	close(lab->fds[0]);
	close(lab->fds[1]);
	free(lab);
	return 0;
}

// All that was written since the last call.
static const char *written(struct lab *lab) {
	ssize_t n;

	assert_int_equal(write(lab->fds[1], "", 1), 1); // so that there is something to read
	n = read(lab->fds[0], lab->text, sizeof(lab->text));
	assert_in_range(n, 1, sizeof(lab->text));
	assert_int_equal(lab->text[n - 1], '\0');
	return lab->text;
}

static void an_event_is_a_line_with_time_and_level(void **state) {
	struct lab *lab = *state;
	int year, month, day, hour, minute, second, ms, end = 0;

	weir_log_write(&lab->log, WEIR_LOG_WARN, "port %s: %s", "wan", "down");
	assert_int_equal(sscanf(written(lab), "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &year, &month,
				 &day, &hour, &minute, &second, &ms, &end),
		7);
	assert_string_equal(lab->text + end, "warn  port wan: down\n");
}

static void what_is_less_urgent_is_not_written(void **state) {
	struct lab *lab = *state;

	weir_log_write(&lab->log, WEIR_LOG_DEBUG, "quiet");
	assert_string_equal(written(lab), "");
	lab->log.level = WEIR_LOG_ERROR;
	weir_log_write(&lab->log, WEIR_LOG_WARN, "quiet");
	assert_string_equal(written(lab), "");
	weir_log_write(&lab->log, WEIR_LOG_ERROR, "loud");
	assert_non_null(strstr(written(lab), "error loud\n"));
}

static void a_message_cannot_forge_a_line(void **state) {
	struct lab *lab = *state;
	char message[3000];

	weir_log_write(&lab->log, WEIR_LOG_INFO, "a\nb\r\x1b[c");
	assert_non_null(strstr(written(lab), "info  a b  [c\n"));
	memset(message, 'x', sizeof(message) - 1);
	message[sizeof(message) - 1] = '\0';
	weir_log_write(&lab->log, WEIR_LOG_INFO, "%s", message);
	assert_in_range(strlen(written(lab)), 1000, 1200);
	assert_int_equal(lab->text[strlen(lab->text) - 1], '\n');
}

static void dpdk_messages_come_marked_and_with_their_level(void **state) {
	struct lab *lab = *state;

	assert_int_equal(weir_log_take_dpdk(&lab->log), 0);
	rte_log(RTE_LOG_ERR, RTE_LOGTYPE_EAL, "EAL: no\nEAL: never\n");
	assert_non_null(strstr(written(lab), "error dpdk: EAL: no\n"));
	assert_non_null(strstr(lab->text, "error dpdk: EAL: never\n"));
	rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL, "EAL: hm\n");
	assert_non_null(strstr(written(lab), "warn  dpdk: EAL: hm\n"));
	rte_log(RTE_LOG_NOTICE, RTE_LOGTYPE_EAL, "EAL: by the way\n");
	assert_non_null(strstr(written(lab), "info  dpdk: EAL: by the way\n"));
	lab->log.level = WEIR_LOG_ERROR;
	rte_log(RTE_LOG_WARNING, RTE_LOGTYPE_EAL, "EAL: hm\n");
	assert_string_equal(written(lab), "");
}

static void levels_have_names(void **state) {
	enum weir_log_level level = WEIR_LOG_INFO;

	(void)state;
	assert_int_equal(weir_log_level_parse("warn", &level), 0);
	assert_int_equal(level, WEIR_LOG_WARN);
	assert_int_equal(weir_log_level_parse("warning", &level), -EINVAL);
	assert_int_equal(level, WEIR_LOG_WARN);
	assert_string_equal(weir_log_dpdk_level(WEIR_LOG_ERROR), "*:error");
	assert_string_equal(weir_log_dpdk_level(WEIR_LOG_INFO), "*:warning");
	assert_string_equal(weir_log_dpdk_level(WEIR_LOG_DEBUG), "*:info");
}

int main(void) {
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(
			an_event_is_a_line_with_time_and_level, open_lab, close_lab),
		cmocka_unit_test_setup_teardown(
			what_is_less_urgent_is_not_written, open_lab, close_lab),
		cmocka_unit_test_setup_teardown(a_message_cannot_forge_a_line, open_lab, close_lab),
		cmocka_unit_test_setup_teardown(
			dpdk_messages_come_marked_and_with_their_level, open_lab, close_lab),
		cmocka_unit_test(levels_have_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
