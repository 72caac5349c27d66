// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#define LINE_BYTES 2048

static const char *const level_names[] = {
#define X(name, key) [WEIR_LOG_##name] = (key),
	WEIR_LOG_LEVELS(X)
#undef X
};

static bool has_room(int fd) {
	struct pollfd wanted = {.fd = fd, .events = POLLOUT};

	return poll(&wanted, 1, 0) == 1 && (wanted.revents & POLLOUT) != 0;
}

// One write, so that lines of two processes on one terminal do not mix. A pipe that has room at all
// takes a line as a whole: lines are shorter than PIPE_BUF. Returns whether it was written.
static bool write_line(const struct weir_log *log, enum weir_log_level level, const char *text) {
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
		ssize_t wrote;

		if (!has_room(log->fd)) {
			return false;
		}
		wrote = write(log->fd, line + done, (size_t)n - done);
		// A log that cannot be written must not stop packets.
		if (wrote < 0 && errno != EINTR) {
			return false;
		}
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	return true;
}

void weir_log_emit(const struct weir_log *log, enum weir_log_level level, const char *text) {
	unsigned int lost =
		log->lost != NULL ? __atomic_exchange_n(log->lost, 0, __ATOMIC_RELAXED) : 0;
	char missing[64];

	if (lost > 0) {
		snprintf(missing, sizeof(missing), "log: %u line%s left out, no room for them",
			lost, lost == 1 ? "" : "s");
		lost = write_line(log, WEIR_LOG_WARN, missing) ? 0 : lost;
	}
	if (!write_line(log, level, text)) {
		lost++;
	}
	if (log->lost != NULL && lost > 0) {
		__atomic_fetch_add(log->lost, lost, __ATOMIC_RELAXED);
	}
}

void weir_log_clean(char *text) {
	for (char *c = text; *c != '\0'; c++) {
		if ((unsigned char)*c < ' ' || *c == 0x7f) {
			*c = *c == '\t' ? ' ' : '?';
		}
	}
}

void weir_log_write(
	const struct weir_log *log, enum weir_log_level level, const char *format, ...) {
	char text[LINE_BYTES];
	va_list args;

	if (level > log->level) {
		return;
	}
	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	weir_log_clean(text);
	if (log->filter == NULL || log->filter(log->filter_context, level, text)) {
		weir_log_emit(log, level, text);
	}
}

void weir_log_claim_descriptors(void) {
	int fd;

	do { // the lowest that is free
		fd = open("/dev/null", O_RDWR);
	} while (fd >= 0 && fd <= STDERR_FILENO);
	if (fd >= 0) {
		close(fd);
	}
}
