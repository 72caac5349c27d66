// SPDX-License-Identifier: BSD-3-Clause
//
// History file: reads and writes history.json in --state-dir, with mode 0600 and at most
// WEIR_HISTORY_FILE_BYTES. The file preserves the history over a restart of weir-metrics.
//
// Threads: any. Logs nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "history.h"

#define WEIR_HISTORY_FILE_BYTES (128u << 10)

// Reads the file. now_ms: Unix time. Returns 0, or -ENOENT if there is no file. If the file cannot
// be read or is invalid, returns another negative errno and writes one line to why. After a failure
// `history` is unchanged.
int weir_history_read(const char *directory, uint64_t now_ms, struct weir_history *history,
	char *why, size_t why_bytes);

// Writes json, the result of weir_history_json, to the file. The file is replaced atomically: if
// the process is killed, the file has the old or the new content. Returns 0, or negative errno with
// one line in why.
int weir_history_write(const char *directory, const json_t *json, char *why, size_t why_bytes);
