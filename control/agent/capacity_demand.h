// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity demand: measures the speed of the CPUs when a balancer requests the speed, unless the
// cache contains it. Measures once, in a thread with the lowest priority.
//
// Threads: one, the event loop's; the measuring thread shares only a pipe with the event loop.
#pragma once

#include <jansson.h>
#include <uv.h>

#include "capacity.h"
#include "load.h"
#include "log.h"

#define WEIR_CAPACITY_FAILED_TEXT "not measurable"
// X(NAME, "name in status")
#define WEIR_CAPACITY_STATES(X) \
	X(UNKNOWN, "not requested") \
	X(MEASURING, "being measured") \
	X(MEASURED, "measured") \
	X(CACHED, "measured earlier") \
	X(FAILED, WEIR_CAPACITY_FAILED_TEXT)

enum weir_capacity_state {
#define X(name, text) WEIR_CAPACITY_##name,
	WEIR_CAPACITY_STATES(X)
#undef X
};

struct weir_capacity_demand {
	struct weir_log *log;
	struct weir_load *load; // gets the result
	struct weir_capacity_cpu cpu;
	enum weir_capacity_state state;
	double gcu; // speed of one CPU; 0 = unknown
	int cache; // descriptor of weir_capacity_cache_open, owned by the caller; negative = none
	int pipe; // read end of the pipe from the measuring thread; -1 = none
	uint64_t since_ms; // start of the measuring thread
	uv_poll_t poll;
	bool poll_open;
};

// Initialize. If the cache contains a speed, use that speed.
void weir_capacity_demand_start(
	struct weir_log *log, struct weir_load *load, int cache, struct weir_capacity_demand *ret);
// Stop. Run the event loop after this call, so that libuv can close the handle. The measuring
// thread is not stopped: it ends when the measurement or the process ends.
void weir_capacity_demand_stop(struct weir_capacity_demand *demand);

// Start the measurement if a balancer requests the speed for the first time and the speed is not
// known. wants: union of the fields that the balancers request. Call this function at least every
// second.
void weir_capacity_demand_set(
	struct weir_capacity_demand *demand, uv_loop_t *loop, uint32_t wants, uint64_t now_ms);

// Read the cache again, because weir-agent capacity --measure may have changed it.
void weir_capacity_demand_reload(struct weir_capacity_demand *demand);

// Returns {"state", "cpu", "gcu"}, owned by the caller.
json_t *weir_capacity_demand_status(const struct weir_capacity_demand *demand);
