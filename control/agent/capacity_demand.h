// SPDX-License-Identifier: BSD-3-Clause
//
// Capacity demand: has the speed of the CPUs measured once, by a thread with the lowest priority,
// when a balancer requests it and the cache does not have it.
//
// Threads: one, the event loop's; the measuring thread shares nothing with it but a pipe.
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
	double gcu; // of one CPU; 0 = unknown
	int cache; // of weir_capacity_cache_open, owned by the caller; negative = none
	int pipe; // from the thread; -1 = none
	uint64_t since_ms; // it runs
	uv_poll_t poll;
	bool poll_open;
};

// Take the value of the cache, if there is one.
void weir_capacity_demand_start(
	struct weir_log *log, struct weir_load *load, int cache, struct weir_capacity_demand *ret);
// Run the loop afterwards to close its handle. The thread ends by itself, or with the process.
void weir_capacity_demand_stop(struct weir_capacity_demand *demand);

// wants: the fields that all balancers request. Call it at least every second.
void weir_capacity_demand_set(
	struct weir_capacity_demand *demand, uv_loop_t *loop, uint32_t wants, uint64_t now_ms);

// Read the cache again: weir-agent capacity --measure may have written it.
void weir_capacity_demand_reload(struct weir_capacity_demand *demand);

// {"state", "cpu", "gcu"}, owned by the caller.
json_t *weir_capacity_demand_status(const struct weir_capacity_demand *demand);
