// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "hash.h"

#define LINE_BYTES 2048
#define REPEATS 64 // lines remembered, a power of two
#define REPEAT_TEXT_BYTES 160

struct repeat { // one line seen lately
	uint64_t hash; // 0 = free
	uint64_t since_ms;
	unsigned int seen;
	enum weir_log_level level;
	char text[REPEAT_TEXT_BYTES]; // its beginning, to name it later
};

struct weir_log {
	int fd;
	enum weir_log_level level;
	uint64_t (*clock_ms)(void);
	struct repeat repeat[REPEATS];
};

static const char *const level_names[] = {
#define X(name, key) [WEIR_LOG_##name] = key,
	WEIR_LOG_LEVELS(X)
#undef X
};

static uint64_t monotonic_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

int weir_log_create(
	int fd, enum weir_log_level level, uint64_t (*clock_ms)(void), struct weir_log **ret) {
	struct weir_log *log = calloc(1, sizeof(*log));

	if (log == NULL) {
		return -ENOMEM;
	}
	log->fd = fd;
	log->level = level;
	log->clock_ms = clock_ms != NULL ? clock_ms : monotonic_ms;
	*ret = log;
	return 0;
}

// The line goes out in one write, so that lines of two processes on one terminal do not mix.
static void emit(struct weir_log *log, enum weir_log_level level, const char *text) {
	char line[LINE_BYTES + 64];
	struct timespec now;
	struct tm utc;
	char stamp[32];
	size_t done = 0;
	int n;

	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	strftime(stamp, sizeof(stamp), "%Y-%m-%dT%H:%M:%S", &utc);
	n = snprintf(line, sizeof(line), "%s.%03ldZ %-5s %s\n", stamp, now.tv_nsec / 1000000,
		level_names[level], text);
	if (n >= (int)sizeof(line)) {
		n = sizeof(line) - 1;
		line[n - 1] = '\n';
	}
	while (done < (size_t)n) {
		ssize_t wrote = write(log->fd, line + done, (size_t)n - done);

		if (wrote < 0 && errno != EINTR) {
			return; // nobody to tell
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
}

static void report(struct weir_log *log, struct repeat *repeat) {
	char text[REPEAT_TEXT_BYTES + 64];

	if (repeat->hash != 0 && repeat->seen > WEIR_LOG_BURST) {
		snprintf(text, sizeof(text), "%s (%u more of these in the last %u s)", repeat->text,
			repeat->seen - WEIR_LOG_BURST,
			(unsigned int)((log->clock_ms() - repeat->since_ms + 500) / 1000));
		emit(log, repeat->level, text);
	}
	repeat->hash = 0;
}

// Whether this line is to be written.
static bool admit(struct weir_log *log, enum weir_log_level level, const char *text) {
	uint64_t hash = weir_hash_bytes(text, strlen(text), level) | 1;
	struct repeat *repeat = &log->repeat[(hash >> 1) % REPEATS];
	uint64_t now = log->clock_ms();

	if (repeat->hash != hash || now - repeat->since_ms >= WEIR_LOG_WINDOW_MS) {
		report(log, repeat);
		repeat->hash = hash;
		repeat->since_ms = now;
		repeat->seen = 0;
		repeat->level = level;
		snprintf(repeat->text, sizeof(repeat->text), "%s", text);
	}
	repeat->seen++;
	return repeat->seen <= WEIR_LOG_BURST;
}

void weir_log_write(struct weir_log *log, enum weir_log_level level, const char *format, ...) {
	char text[LINE_BYTES];
	va_list arguments;

	if (level > log->level) {
		return;
	}
	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			*c = '?';
		}
	}
	if (admit(log, level, text)) {
		emit(log, level, text);
	}
}

void weir_log_tick(struct weir_log *log) {
	uint64_t now = log->clock_ms();

	for (unsigned int i = 0; i < REPEATS; i++) {
		if (log->repeat[i].hash != 0 &&
			now - log->repeat[i].since_ms >= WEIR_LOG_WINDOW_MS) {
			report(log, &log->repeat[i]);
		}
	}
}

void weir_log_free(struct weir_log *log) {
	if (log == NULL) {
		return;
	}
	for (unsigned int i = 0; i < REPEATS; i++) {
		report(log, &log->repeat[i]);
	}
	free(log);
}

int weir_log_level_parse(const char *name, enum weir_log_level *ret) {
	for (unsigned int i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
		if (strcmp(name, level_names[i]) == 0) {
			*ret = (enum weir_log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}
