// SPDX-License-Identifier: BSD-3-Clause
#include "dpdk_log.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <rte_log.h>

static enum weir_log_level level_of_dpdk(int level) {
	if (level <= 0) {
		// DPDK is not writing a message, so there is no level
		return WEIR_LOG_INFO;
	}
	if (level <= (int)RTE_LOG_ERR) {
		return WEIR_LOG_ERROR;
	}
	if (level <= (int)RTE_LOG_WARNING) {
		return WEIR_LOG_WARN;
	}
	return level <= (int)RTE_LOG_INFO ? WEIR_LOG_INFO : WEIR_LOG_DEBUG;
}

static ssize_t write_messages(void *cookie, const char *text, size_t bytes) {
	const struct weir_log *log = cookie;
	enum weir_log_level level = level_of_dpdk(rte_log_cur_msg_loglevel());
	size_t begin = 0;

	while (begin < bytes) {
		const char *end = memchr(text + begin, '\n', bytes - begin);
		size_t length = end != NULL ? (size_t)(end - text) - begin : bytes - begin;

		if (length > 0) {
			weir_log_write(log, level, "dpdk: %.*s", (int)length, text + begin);
		}
		begin += length + 1;
	}
	return (ssize_t)bytes;
}

int weir_dpdk_log_take(const struct weir_log *log) {
	cookie_io_functions_t functions = {.write = write_messages};
	FILE *stream = fopencookie((void *)(uintptr_t)log, "w", functions);

	if (stream == NULL) {
		return -ENOMEM;
	}
	rte_openlog_stream(stream); // DPDK flushes after each message
	return 0;
}

const char *weir_dpdk_log_level(enum weir_log_level level) {
	switch (level) {
	case WEIR_LOG_ERROR:
		return "*:error";
	case WEIR_LOG_WARN:
	case WEIR_LOG_INFO:
		return "*:warning";
	case WEIR_LOG_DEBUG:
		return "*:info"; // DPDK's debug level would fill the disk
	}
	return "*:warning";
}
