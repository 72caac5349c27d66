// SPDX-License-Identifier: BSD-3-Clause
//
// Log of the control process: one line per event, written to a descriptor (stderr).
// `2026-01-01T00:00:00.000Z info  backend web/web-1: healthy (2 checks passed)`
// The same line more than a few times in a short while is held back; how often is said later.
// Control characters are replaced, so that a name in a message cannot forge a line.
//
// Threads: one, that of the event loop.
#pragma once

#include <stdint.h>

// X(NAME, "name")
#define WEIR_LOG_LEVELS(X) X(ERROR, "error") X(WARN, "warn") X(INFO, "info") X(DEBUG, "debug")

enum weir_log_level {
#define X(name, key) WEIR_LOG_##name,
	WEIR_LOG_LEVELS(X)
#undef X
};

#define WEIR_LOG_BURST 5 // equal lines written before the rest are held back
#define WEIR_LOG_WINDOW_MS 10000 // how long they are held back

struct weir_log;

// fd stays the caller's. clock_ms: monotonic milliseconds, NULL for CLOCK_MONOTONIC (tests give
// their own). Returns 0 or -ENOMEM.
int weir_log_create(
	int fd, enum weir_log_level level, uint64_t (*clock_ms)(void), struct weir_log **ret);
void weir_log_free(struct weir_log *log); // says what is held back; NULL is fine

void weir_log_write(struct weir_log *log, enum weir_log_level level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

// Say how many lines were held back in windows that are over. Call about once a second.
void weir_log_tick(struct weir_log *log);

int weir_log_level_parse(const char *name, enum weir_log_level *ret); // 0, -EINVAL
