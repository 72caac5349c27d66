// SPDX-License-Identifier: BSD-3-Clause
//
// Watchdog: notices workers that do not turn, and tells systemd as long as all do.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "segment.h"

#define WEIR_WATCHDOG_LIMIT_MS 1000 // a worker that has not turned for so long is stuck

struct weir_watchdog {
	const struct weir_segment *segment;
	const struct weir_log *log;
	uint64_t heartbeat_ns[WEIR_WORKERS_MAX]; // as last seen
	uint64_t changed_ms[WEIR_WORKERS_MAX]; // our time when it last changed
	bool stuck[WEIR_WORKERS_MAX];
};

void weir_watchdog_init(struct weir_watchdog *watchdog, const struct weir_segment *segment,
	const struct weir_log *log, uint64_t now_ms);
// Look at all heartbeats; workers that got stuck or run again are logged once.
// Returns true when all workers turn. Call several times a second.
bool weir_watchdog_check(struct weir_watchdog *watchdog, uint64_t now_ms);
