// SPDX-License-Identifier: BSD-3-Clause
//
// Suppresses repeated log lines: after a line was written WEIR_LOG_BURST times within
// WEIR_LOG_WINDOW_MS, further equal lines of the same level are suppressed until the window ends.
// Then one line reports the number of suppressed lines. A window also ends if another line needs
// the same table entry because of a hash collision.
//
// Threads: any thread that may log. Counting a line and writing a summary take a lock, except in
// weir_log_limit_free.
#pragma once

#include <stdint.h>

#include "log.h"

#define WEIR_LOG_BURST 5 // number of equal lines that are written in a window
#define WEIR_LOG_WINDOW_MS 10000

struct weir_log_limit;

// Creates a limit and makes it the filter of a log. log must outlive the limit. clock_ms: monotonic
// milliseconds, NULL for CLOCK_MONOTONIC (tests pass their own clock). Returns 0 or -ENOMEM.
int weir_log_limit_create(
	struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_log_limit **ret);
// Log how often each line was suppressed, remove the filter from the log, and free the limit. No
// other thread may use the log during the call. NULL is allowed.
void weir_log_limit_free(struct weir_log_limit *limit);

// For each window that has ended, log the number of suppressed lines. Call about once a second.
void weir_log_limit_tick(struct weir_log_limit *limit);
