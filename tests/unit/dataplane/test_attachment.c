// SPDX-License-Identifier: BSD-3-Clause
//
// Tests which changes of the attached weir-control are logged.
#include "attachment.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct lab {
	int fds[2];
	struct weir_log log;
	struct weir_attachment attachment;
	char text[1024];
};

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	*state = lab;
	if (lab == NULL || pipe(lab->fds) < 0) {
		return -1;
	}
	lab->log = (struct weir_log){.fd = lab->fds[1], .level = WEIR_LOG_INFO};
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	close(lab->fds[0]);
	close(lab->fds[1]);
	free(lab);
	return 0;
}

TEST_EACH(setup, teardown);

// Returns the lines logged by an update, without time stamps; "" = none.
static const char *update(struct lab *lab, int pid, bool has_tables, uint64_t now_ms) {
	ssize_t n;
	char *end;

	(void)!write(lab->fds[1], "|", 1); // so that read() does not block
	weir_attachment_update(&lab->attachment, &lab->log, pid, has_tables, now_ms);
	n = read(lab->fds[0], lab->text, sizeof(lab->text) - 1);
	assert_true(n > 0);
	lab->text[n] = '\0';
	end = strchr(lab->text, ' ');
	return end != NULL ? end + 1 : "";
}

TEST(each_weir_control_is_logged) {
	struct lab *lab = *state;

	assert_string_equal(update(lab, 0, false, 100), "");
	assert_string_equal(update(lab, 7, false, 200), "info  weir-control attached (pid 7)\n");
	assert_string_equal(update(lab, 7, true, 300), "");
	assert_string_equal(update(lab, 0, true, 400),
		"warn  weir-control detached (pid 7); forwarding continues with its last tables\n");
	assert_string_equal(update(lab, 0, true, 500), "");
	assert_string_equal(update(lab, 8, true, 600), "info  weir-control attached (pid 8)\n");
	assert_non_null(strstr(update(lab, 9, true, 700), "info  weir-control attached (pid 9)\n"));
	assert_non_null(strstr(lab->text, "warn  weir-control detached (pid 8)"));
}

// A weir-control that refuses this dataplane detaches at once, and tries again every two seconds.
TEST(repeated_attempts_are_logged_once_until_one_lasts) {
	struct lab *lab = *state;
	uint64_t now_ms = 1000;

	assert_string_equal(update(lab, 7, false, 0), "info  weir-control attached (pid 7)\n");
	assert_string_equal(update(lab, 0, false, 1),
		"warn  weir-control detached (pid 7); there are no tables: no packet is "
		"forwarded\n");
	for (int i = 0; i < 100; i++, now_ms += 2000) {
		assert_string_equal(update(lab, 7, false, now_ms), "");
		assert_string_equal(
			update(lab, 7, false, now_ms + WEIR_ATTACHMENT_LASTS_MS - 1), "");
		assert_string_equal(update(lab, 0, false, now_ms + 1500), "");
	}
	assert_string_equal(update(lab, 7, true, now_ms), "");
	assert_string_equal(update(lab, 7, true, now_ms + WEIR_ATTACHMENT_LASTS_MS),
		"info  weir-control attached (pid 7)\n");
	assert_string_equal(update(lab, 7, true, now_ms + 5000), "");
	assert_non_null(strstr(update(lab, 0, true, now_ms + 5100), "its last tables"));
}
