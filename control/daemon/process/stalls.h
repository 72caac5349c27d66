// SPDX-License-Identifier: BSD-3-Clause
//
// Stalls: detects stalled workers of the attached dataplane by their missing heartbeats
// (heartbeat.h). Each change is logged once. The connection to the dataplane would not show a
// stall, because a stopped or hung process does not close its connections.
//
// Threads: one. No clock.
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "log.h"
#include "segment.h"

struct weir_stalls {
	const struct weir_segment *segment; // NULL: no dataplane is attached
	uint64_t attached_ns;
	uint32_t count; // number of stalled workers
	// Time of the last heartbeat of each stalled worker, or attached_ns if this is later; 0 =
	// the worker is not stalled.
	uint64_t since_ns[WEIR_WORKERS_MAX];
};

// Sets the dataplane to watch; segment NULL = none. A worker that has sent no heartbeat yet counts
// as stalled when the time limit has passed since this call.
void weir_stalls_watch(
	struct weir_stalls *stalls, const struct weir_segment *segment, uint64_t now_ns);
// Updates the set of stalled workers, and logs the changes; call this function several times a
// second. Returns whether the set has changed.
bool weir_stalls_check(struct weir_stalls *stalls, const struct weir_log *log, uint64_t now_ns);
// Returns for how long the worker that stalled first has been stalled; 0 = no worker is stalled.
uint64_t weir_stalls_longest_ns(const struct weir_stalls *stalls, uint64_t now_ns);
