// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <rte_log.h>

#define MESSAGE_BYTES 1024

static const char *const level_names[] = {
#define X(name, key) key,
	WEIR_LOG_LEVELS(X)
#undef X
};
#define LEVELS (sizeof(level_names) / sizeof(level_names[0]))

static void replace_controls(char *message) {
	for (char *c = message; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			*c = ' ';
		}
	}
}

static void write_line(
	const struct weir_log *log, enum weir_log_level level, const char *origin, char *message) {
	char line[MESSAGE_BYTES + 64];
	struct timespec now;
	struct tm tm;
	size_t bytes;
	int n;

	replace_controls(message);
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &tm);
	bytes = strftime(line, sizeof(line), "%Y-%m-%dT%H:%M:%S", &tm);
	n = snprintf(line + bytes, sizeof(line) - bytes, ".%03dZ %-5s %s%s\n",
		(int)(now.tv_nsec / 1000000), level_names[level], origin, message);
	bytes += (size_t)n < sizeof(line) - bytes ? (size_t)n : sizeof(line) - bytes - 1;
	// A log that cannot be written must not stop packets.
	if (write(log->fd, line, bytes) < 0) {
		return;
	}
}

void weir_log_write(
	const struct weir_log *log, enum weir_log_level level, const char *format, ...) {
	char message[MESSAGE_BYTES];
	va_list args;

	if (level > log->level) {
		return;
	}
	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	write_line(log, level, "", message);
}

int weir_log_level_parse(const char *name, enum weir_log_level *ret) {
	for (unsigned int i = 0; i < LEVELS; i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret = (enum weir_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static enum weir_log_level level_of_dpdk(int level) {
	if (level <= 0) {
		return WEIR_LOG_INFO; // outside of a message
	}
	if (level <= (int)RTE_LOG_ERR) {
		return WEIR_LOG_ERROR;
	}
	if (level <= (int)RTE_LOG_WARNING) {
		return WEIR_LOG_WARN;
	}
	return level <= (int)RTE_LOG_INFO ? WEIR_LOG_INFO : WEIR_LOG_DEBUG;
}

static ssize_t take_dpdk(void *cookie, const char *text, size_t bytes) {
	const struct weir_log *log = cookie;
	enum weir_log_level level = level_of_dpdk(rte_log_cur_msg_loglevel());
	size_t begin = 0;

	while (begin < bytes) {
		const char *end = memchr(text + begin, '\n', bytes - begin);
		size_t length = end != NULL ? (size_t)(end - text) - begin : bytes - begin;
		char message[MESSAGE_BYTES];

		snprintf(message, sizeof(message), "%.*s", (int)length, text + begin);
		if (length > 0 && level <= log->level) {
			write_line(log, level, "dpdk: ", message);
		}
		begin += length + 1;
	}
	return (ssize_t)bytes;
}

int weir_log_take_dpdk(const struct weir_log *log) {
	cookie_io_functions_t functions = {.write = take_dpdk};
	FILE *stream = fopencookie((void *)(uintptr_t)log, "w", functions);

	if (stream == NULL) {
		return -ENOMEM;
	}
	rte_openlog_stream(stream); // DPDK flushes after each message
	return 0;
}

const char *weir_log_dpdk_level(enum weir_log_level level) {
	switch (level) {
	case WEIR_LOG_ERROR:
		return "*:error";
	case WEIR_LOG_WARN:
	case WEIR_LOG_INFO:
		return "*:warning";
	case WEIR_LOG_DEBUG:
		return "*:info"; // its debug level fills the disk
	}
	return "*:warning";
}
