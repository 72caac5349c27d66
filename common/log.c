// SPDX-License-Identifier: BSD-3-Clause
#include "log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "log_line.h"

#define JOURNAL_PATH "/run/systemd/journal/socket"
#define CUT 0x80000000u // in *log->lost: only a part of the last line was written

// --- sinks --------------------------------------------------------------------------------

// Returns whether systemd has connected the descriptor to the journal. The environment variable
// JOURNAL_STREAM has the device and inode of the stream that systemd has connected to the journal.
// A redirected descriptor has another device or inode.
static bool is_journal(int fd) {
	const char *stream = getenv("JOURNAL_STREAM");
	unsigned long long device, inode;
	struct stat status;

	return stream != NULL && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	       fstat(fd, &status) == 0 && status.st_dev == device && status.st_ino == inode;
}

void weir_log_open(struct weir_log *log, enum weir_log_format format) {
	log->journal = -1;
	log->sink = format == WEIR_LOG_FORMAT_JSON ? WEIR_LOG_JSON : WEIR_LOG_TEXT;
	if (format == WEIR_LOG_FORMAT_AUTO && is_journal(log->fd)) {
		// sd_journal_sendv is not used, because it blocks while journald is slow.
		log->journal = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		log->sink = log->journal >= 0 ? WEIR_LOG_JOURNAL : WEIR_LOG_TEXT;
	}
}

void weir_log_close(struct weir_log *log) {
	if (log->sink == WEIR_LOG_JOURNAL) {
		close(log->journal);
		log->journal = -1;
		log->sink = WEIR_LOG_TEXT;
	}
}

static bool has_room(int fd) {
	struct pollfd wanted = {.fd = fd, .events = POLLOUT};

	return poll(&wanted, 1, 0) == 1 && (wanted.revents & POLLOUT) != 0;
}

// Write a line with one write(2) if the descriptor takes all bytes, so that lines of two processes
// on one terminal do not mix. Returns whether all bytes were written.
static bool write_bytes(const struct weir_log *log, const char *bytes, size_t count) {
	size_t done = 0;
	ssize_t wrote = 0;

	// After an error other than EINTR, do not try again: a log that cannot be written must not
	// stop forwarding.
	while (done < count && (wrote >= 0 || errno == EINTR) && has_room(log->fd)) {
		wrote = write(log->fd, bytes + done, count - done);
		done += wrote > 0 ? (size_t)wrote : 0;
	}
	if (done > 0 && done < count && log->lost != NULL) {
		__atomic_fetch_or(log->lost, CUT, __ATOMIC_RELAXED);
	}
	return done == count;
}

// Sends a record to journald. The socket is not connected, because journald may restart. Returns 0
// or negative errno.
static int send_journal(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *message) {
	const char *path = log->journal_path != NULL ? log->journal_path : JOURNAL_PATH;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char datagram[WEIR_LOG_DATAGRAM_BYTES];
	size_t bytes =
		weir_log_datagram(level, fields, program_invocation_short_name, message, datagram);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	return sendto(log->journal, datagram, bytes, MSG_DONTWAIT | MSG_NOSIGNAL,
		       (const struct sockaddr *)&address, sizeof(address)) < 0
		       ? -errno
		       : 0;
}

// Writes a record to the sink of the log, or as text to log->fd if journald's socket cannot be
// used. Returns false if the record could not be written now, and must be counted as dropped.
static bool write_record(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *message) {
	char line[WEIR_LOG_LINE_BYTES];

	if (log->sink == WEIR_LOG_JSON) {
		return write_bytes(log, line, weir_log_json_line(level, fields, message, line));
	}
	if (log->sink == WEIR_LOG_JOURNAL) {
		int r = send_journal(log, level, fields, message);

		if (r == 0 || r == -EAGAIN) {
			return r == 0;
		}
		// journald's socket cannot be used, for example because it does not exist: write
		// text to the descriptor, which is connected to the journal too.
	}
	return write_bytes(log, line, weir_log_text_line(level, message, line));
}

// --- records ------------------------------------------------------------------------------

static void emit_cleaned(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *message) {
	unsigned int lost =
		log->lost != NULL ? __atomic_exchange_n(log->lost, 0, __ATOMIC_RELAXED) : 0;
	char missing[64];

	if ((lost & CUT) != 0 && !write_bytes(log, "\n", 1)) {
		__atomic_fetch_or(log->lost, CUT, __ATOMIC_RELAXED); // may be set again meanwhile
		__atomic_fetch_add(log->lost, (lost & ~CUT) + 1, __ATOMIC_RELAXED);
		return;
	}
	lost &= ~CUT;
	if (lost > 0) {
		snprintf(missing, sizeof(missing), "log: %u line%s dropped: the reader is too slow",
			lost, lost == 1 ? "" : "s");
		lost = write_record(log, WEIR_LOG_WARN, NULL, missing) ? 0 : lost;
	}
	if (lost > 0 || !write_record(log, level, fields, message)) {
		lost++;
	}
	if (log->lost != NULL && lost > 0) {
		__atomic_fetch_add(log->lost, lost, __ATOMIC_RELAXED);
	}
}

void weir_log_emit(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *text) {
	char message[WEIR_LOG_MESSAGE_BYTES];

	size_t bytes = strnlen(text, sizeof(message) - 1);

	memcpy(message, text, bytes);
	message[bytes] = '\0';
	weir_log_clean(message);
	emit_cleaned(log, level, fields, message);
}

__attribute__((format(printf, 4, 0))) static void write_event(const struct weir_log *log,
	enum weir_log_level level, const struct weir_log_fields *fields, const char *format,
	va_list args) {
	char message[WEIR_LOG_MESSAGE_BYTES];

	if (level > log->level) {
		return;
	}
	vsnprintf(message, sizeof(message), format, args);
	weir_log_clean(message);
	if (log->filter == NULL || log->filter(log->filter_context, level, message)) {
		emit_cleaned(log, level, fields, message);
	}
}

void weir_log_write(
	const struct weir_log *log, enum weir_log_level level, const char *format, ...) {
	va_list args;

	va_start(args, format);
	write_event(log, level, NULL, format, args);
	va_end(args);
}

void weir_log_event(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *format, ...) {
	va_list args;

	va_start(args, format);
	write_event(log, level, fields, format, args);
	va_end(args);
}

void weir_log_plain(const struct weir_log *log, const char *format, ...) {
	char message[WEIR_LOG_LINE_BYTES];
	va_list args;

	va_start(args, format);
	vsnprintf(message, sizeof(message), format, args);
	va_end(args);
	if (log->sink == WEIR_LOG_TEXT) {
		weir_log_clean(message);
		dprintf(log->fd, "%s\n", message);
	} else {
		weir_log_emit(log, WEIR_LOG_ERROR, NULL, message);
	}
}
