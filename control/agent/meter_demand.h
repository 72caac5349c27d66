// SPDX-License-Identifier: BSD-3-Clause
//
// Meter demand: loads the meter when a balancer requests a field of the meter, and unloads it when
// no balancer has requested such a field for some time. The helper process does the loading and
// unloading. While loading fails, for example because there is no free descriptor, the agent tries
// again every minute.
//
// Threads: one, the event loop's.
#pragma once

#include <uv.h>

#include "load.h"
#include "log.h"

struct weir_meter_demand {
	struct weir_log *log;
	struct weir_load *load; // gets the reader of the meter
	int helper; // descriptor of weir_meter_helper_start, owned by the caller; -1 = none
	bool poll_open;
	bool pending; // an answer from the helper is pending
	bool failed; // the helper has exited, or takes no requests
	uint64_t retry_ms; // time of the next attempt after a failure to load; 0 = no failure
	uint64_t unwanted_ms; // start of the time without a request for the meter; 0 = requested
	struct weir_meter *reader; // NULL unless the meter is loaded
	uv_poll_t poll;
};

// Initialize. helper: -1 = no meter. Returns 0 or negative errno.
int weir_meter_demand_start(uv_loop_t *loop, struct weir_log *log, struct weir_load *load,
	int helper, struct weir_meter_demand *ret);
// Stop. Run the event loop after this call, so that libuv can close the handle.
void weir_meter_demand_stop(struct weir_meter_demand *demand);

// Load or unload the meter, depending on `wants`: the union of the fields that balancers request.
void weir_meter_demand_set(struct weir_meter_demand *demand, uint32_t wants, uint64_t now_ms);
