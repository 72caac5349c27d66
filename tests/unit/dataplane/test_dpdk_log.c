// SPDX-License-Identifier: BSD-3-Clause
#include "dpdk_log.h"
#include "test.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

// Returns the output since the last call of this function.
static const char *written(struct lab *lab) {
	ssize_t n;

	assert_int_equal(write(lab->fds[1], "", 1), 1); // so that reading does not wait
	n = read(lab->fds[0], lab->text, sizeof(lab->text));
	assert_in_range(n, 1, sizeof(lab->text));
	assert_int_equal(lab->text[n - 1], '\0');
	return lab->text;
}

TEST(dpdk_messages_are_marked_and_have_their_level, open_lab, close_lab) {
	struct lab *lab = *state;

	assert_int_equal(weir_dpdk_log_take(&lab->log), 0);
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

TEST(levels_have_a_dpdk_level) {
	assert_string_equal(weir_dpdk_log_level(WEIR_LOG_ERROR), "*:error");
	assert_string_equal(weir_dpdk_log_level(WEIR_LOG_INFO), "*:warning");
	assert_string_equal(weir_dpdk_log_level(WEIR_LOG_DEBUG), "*:info");
}
