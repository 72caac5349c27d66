// SPDX-License-Identifier: BSD-3-Clause
//
// Holds back log lines that repeat: a line that was written WEIR_LOG_BURST times within
// WEIR_LOG_WINDOW_MS is not written again until the window is over; then one line gives the number
// of those held back.
//
// Threads: any that may log; a lock is held while a line is counted and its summary written.
#pragma once

#include <stdint.h>

#include "log.h"

#define WEIR_LOG_BURST 5 // equal lines in a window that are written
#define WEIR_LOG_WINDOW_MS 10000

struct weir_log_limit;

// Set log's filter. log must outlive the limit. clock_ms: monotonic milliseconds, NULL for
// CLOCK_MONOTONIC (tests give their own). Returns 0 or -ENOMEM.
int weir_log_limit_create(
	struct weir_log *log, uint64_t (*clock_ms)(void), struct weir_log_limit **ret);
// Log how many lines are held back, and unset log's filter. NULL is fine.
void weir_log_limit_free(struct weir_log_limit *limit);

// Log how many lines were held back in windows that are over. Call about once a second.
void weir_log_limit_tick(struct weir_log_limit *limit);
