// SPDX-License-Identifier: BSD-3-Clause
//
// Watchdog: detects and logs stalled workers. main notifies systemd while no worker is stalled.
//
// Threads: main.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "segment.h"

#define WEIR_WATCHDOG_LIMIT_MS 1000 // time without a new heartbeat after which a worker is stalled

struct weir_watchdog {
	const struct weir_segment *segment;
	const struct weir_log *log;
	uint64_t heartbeat_ns[WEIR_WORKERS_MAX]; // heartbeat at the last check
	uint64_t changed_ms[WEIR_WORKERS_MAX]; // time of the last detected change of the heartbeat
	bool stuck[WEIR_WORKERS_MAX];
};

void weir_watchdog_init(struct weir_watchdog *watchdog, const struct weir_segment *segment,
	const struct weir_log *log, uint64_t now_ms);
// Check the heartbeats of all workers; a worker that stalls or recovers is logged once. now_ms:
// monotonic. Returns true if no worker is stalled. Call several times a second.
bool weir_watchdog_check(struct weir_watchdog *watchdog, uint64_t now_ms);
