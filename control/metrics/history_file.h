// SPDX-License-Identifier: BSD-3-Clause
//
// The file that keeps the history over a restart of weir-metrics: history.json in its directory,
// mode 0600, at most WEIR_HISTORY_FILE_BYTES.
//
// Threads: any. Logs nothing.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "history.h"

#define WEIR_HISTORY_FILE_BYTES (128u << 10)

// Read it. now_ms: time of day. Returns 0; -ENOENT if there is none; or another negative errno with
// one line in why, if it cannot be read or is broken. On failure history is unchanged.
int weir_history_read(const char *directory, uint64_t now_ms, struct weir_history *history,
	char *why, size_t why_bytes);

// Replace it by json, the result of weir_history_json, in one step: after a crash it has either
// content. Returns 0 or negative errno with one line in why.
int weir_history_write(const char *directory, const json_t *json, char *why, size_t why_bytes);
