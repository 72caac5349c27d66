// SPDX-License-Identifier: BSD-3-Clause
//
// Meter demand: has the helper process load the meter when a balancer requests a field that needs
// it, and unload it when none has for a while.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "load.h"
#include "log.h"

struct weir_meter_demand {
	struct weir_log *log;
	struct weir_load *load; // gets the reader
	int helper; // of weir_meter_helper_start, owned by the caller; -1 = none
	bool poll_open;
	bool asked; // an answer is pending
	bool failed; // permanent failure: no retry
	uint64_t unwanted_ms; // since when no balancer requests it; 0 = one does
	struct weir_meter *reader; // while the meter is loaded
	uv_poll_t poll;
};

// Returns 0 or negative errno.
int weir_meter_demand_start(uv_loop_t *loop, struct weir_log *log, struct weir_load *load,
	int helper, struct weir_meter_demand *ret);
// Run the loop afterwards to close its handle.
void weir_meter_demand_stop(struct weir_meter_demand *demand);

// wants: the fields that all balancers request.
void weir_meter_demand_set(struct weir_meter_demand *demand, uint32_t wants, uint64_t now_ms);
