// SPDX-License-Identifier: BSD-3-Clause
//
// Log of weir-dataplane, weir-control, weir-agent and weir-metrics: one record per event, as
//   text     `2026-01-01T00:00:00.000Z info  port wan: up`, a line on a descriptor (stderr)
//   JSON     `{"time":"...","level":"info","message":"port wan: up","port":"wan"}`, also a line
//   journal  a datagram to systemd-journald with MESSAGE=, PRIORITY= and WEIR_PORT=
// Names and reasons in a message may come from untrusted sources: characters that could forge a
// record or confuse a terminal are replaced (log_line.h).
//
// A record that cannot be written now (a full pipe, a stopped terminal, a slow journald) is dropped
// and counted. The writing thread must not wait, because it also does other work, such as resetting
// the watchdog. The number of dropped records is logged before the next record that can be written.
// If only a part of a record was written, for example because the file system was full, the next
// record begins on a new line.
//
// Threads: any except workers, which make no system calls. Each record is written with one write(2)
// or sendto(2), so records of several threads do not mix; only a descriptor that takes a part of a
// record needs more calls. No globals.
#pragma once

#include <stdbool.h>

// Log levels, the most severe first. X(NAME, "name", priority in syslog and the journal)
#define WEIR_LOG_LEVELS(X) \
	X(ERROR, "error", 3) X(WARN, "warn", 4) X(INFO, "info", 6) X(DEBUG, "debug", 7)

enum weir_log_level {
#define X(name, key, priority) WEIR_LOG_##name,
	WEIR_LOG_LEVELS(X)
#undef X
};

// The fields of a record in addition to time, level and message. X(struct member and JSON key,
// "field in the journal")
#define WEIR_LOG_FIELDS(X) \
	X(service, "WEIR_SERVICE") \
	X(backend, "WEIR_BACKEND") \
	X(port, "WEIR_PORT") \
	X(worker, "WEIR_WORKER") \
	X(state, "WEIR_STATE") /* the new state */ \
	X(reason, "WEIR_REASON") \
	X(command, "WEIR_COMMAND") /* command on the control socket */ \
	X(object, "WEIR_OBJECT") /* object of this command */ \
	X(before, "WEIR_BEFORE") \
	X(after, "WEIR_AFTER") \
	X(outcome, "WEIR_OUTCOME") \
	X(peer_uid, "WEIR_PEER_UID") /* user of the control socket's client */ \
	X(peer_gid, "WEIR_PEER_GID") \
	X(peer_pid, "WEIR_PEER_PID")

struct weir_log_fields { // NULL or "" = none
#define X(name, key) const char *name;
	WEIR_LOG_FIELDS(X)
#undef X
};

// The values of --log-format. X(NAME, "name", "meaning")
#define WEIR_LOG_FORMATS(X) \
	X(AUTO, "auto", "to the journal if stderr is connected to the journal, otherwise text") \
	X(TEXT, "text", "lines with time, level and message") \
	X(JSON, "json", "one JSON object per line")

enum weir_log_format { // configured format
#define X(name, key, text) WEIR_LOG_FORMAT_##name,
	WEIR_LOG_FORMATS(X)
#undef X
};

enum weir_log_sink { WEIR_LOG_TEXT, WEIR_LOG_JSON, WEIR_LOG_JOURNAL };

struct weir_log {
	int fd; // owned by the caller
	enum weir_log_level level; // less severe records are not written
	enum weir_log_sink sink;
	int journal; // socket, for WEIR_LOG_JOURNAL; see weir_log_open
	const char *journal_path; // path of journald's socket; NULL = the default
	// Number of records that were dropped since this number was last logged; the highest bit is
	// set if only a part of the last record was written. Owned by the caller; NULL = not
	// counted.
	unsigned int *lost;
	// Returns whether a record must be written. NULL = all records are written.
	bool (*filter)(void *context, enum weir_log_level level, const char *text);
	void *filter_context;
};

// Choose the sink of a log whose fd is set, according to the configured format. If the socket for
// the journal cannot be created, the sink is text.
void weir_log_open(struct weir_log *log, enum weir_log_format format);
void weir_log_close(struct weir_log *log); // close the socket for the journal, but not log->fd

void weir_log_write(const struct weir_log *log, enum weir_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
// Write a record as weir_log_write does, with additional fields. fields: NULL = none.
void weir_log_event(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

// Write a record, without checking the level and the filter of the log. fields: additional fields;
// NULL = none.
void weir_log_emit(const struct weir_log *log, enum weir_log_level level,
	const struct weir_log_fields *fields, const char *text);
// Write an error for a user who has just started the program from a shell. If the sink is text, the
// line has no time and no level, and writing it can block.
void weir_log_plain(const struct weir_log *log, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
