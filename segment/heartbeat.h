// SPDX-License-Identifier: BSD-3-Clause
//
// Heartbeats: determine whether the workers of a dataplane run. Everything that reports stalled
// workers uses these functions: the log of weir-control, its API, metrics, `weirctl status` and the
// doctor.
//
// Threads: any.
#pragma once

#include "segment.h"

// A worker writes a heartbeat about every millisecond. A worker whose heartbeat is older than
// this is stalled: it processes no packets.
#define WEIR_WORKER_ALIVE_NS 1000000000ull

static inline bool weir_heartbeat_alive(uint64_t heartbeat_ns, uint64_t now_ns) {
	return heartbeat_ns != 0 &&
	       (heartbeat_ns >= now_ns || now_ns - heartbeat_ns <= WEIR_WORKER_ALIVE_NS);
}

// Returns whether a worker has started and is not stalled. now_ns: CLOCK_MONOTONIC.
static inline bool weir_worker_alive(
	const struct weir_segment *segment, uint32_t worker, uint64_t now_ns) {
	return weir_heartbeat_alive(
		weir_counter_read(&segment->worker_counters[worker].heartbeat_ns), now_ns);
}
