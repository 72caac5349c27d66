// SPDX-License-Identifier: BSD-3-Clause
//
// Log of weir-dataplane and weir-control: one line per event, written to a descriptor (stderr).
// `2026-01-01T00:00:00.000Z info  port wan: up`
// Control characters are replaced, so that a name in a message cannot forge a line.
//
// A line that its reader has no room for now (a full pipe, a stopped terminal) is left out, and
// counted: whoever writes here also feeds the watchdog and answers the other process, and must not
// wait. The next line that can be written is preceded by the number of those that are missing.
//
// Threads: any but a worker (S1), unless there is a filter. A line is one write. No globals.
#pragma once

#include <stdbool.h>

// X(NAME, "name")
#define WEIR_LOG_LEVELS(X) X(ERROR, "error") X(WARN, "warn") X(INFO, "info") X(DEBUG, "debug")

enum weir_log_level {
#define X(name, key) WEIR_LOG_##name,
	WEIR_LOG_LEVELS(X)
#undef X
};

struct weir_log {
	int fd; // the caller's
	enum weir_log_level level; // less urgent lines are not written
	unsigned int *lost; // lines left out and not told yet; the caller's; NULL = do not tell
	// Returns whether to write a line. NULL = write all lines.
	bool (*filter)(void *context, enum weir_log_level level, const char *text);
	void *filter_context;
};

void weir_log_write(const struct weir_log *log, enum weir_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// Replace control characters. For texts of others.
void weir_log_clean(char *text);
// Write a line whatever the level and the filter say. text has no control characters.
void weir_log_emit(const struct weir_log *log, enum weir_log_level level, const char *text);

// Give descriptors 0 to 2 that the process was started without to /dev/null: else the next file or
// socket would be one of them, and get the log. First of all in main().
void weir_log_claim_descriptors(void);
