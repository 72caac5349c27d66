// SPDX-License-Identifier: BSD-3-Clause
//
// Reads and writes the file that keeps the history over a restart of weir-metrics: history.json in
// --state-dir, mode 0600, at most WEIR_HISTORY_FILE_BYTES.
//
// Threads: any. Logs nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "history.h"

#define WEIR_HISTORY_FILE_BYTES (128u << 10)

// Read the file. now_ms: Unix time. Returns 0, -ENOENT without a file, or another negative errno
// with one line in why, if the file cannot be read or is invalid. After a failure history is
// unchanged.
int weir_history_read(const char *directory, uint64_t now_ms, struct weir_history *history,
	char *why, size_t why_bytes);

// Write json, the result of weir_history_json, into the file, atomically: after a crash the file
// has the old or the new content. Returns 0 or negative errno with one line in why.
int weir_history_write(const char *directory, const json_t *json, char *why, size_t why_bytes);
