// SPDX-License-Identifier: BSD-3-Clause
//
// API commands: the table of commands (docs/reference/control-api.md). Checks the rights of the
// user and the arguments of a request, and then calls the handler of the command. The handlers are
// in the other api_*.c files.
//
// Threads: the thread of the loop.
#pragma once

#include "api_request.h"

struct weir_daemon;

// Check a request and call its handler. context: the daemon.
void weir_api_dispatch(void *context, struct weir_api_call *call);

// --- handlers ---

#define WEIR_API_COMMANDS(X) \
	X(version) \
	X(status) \
	X(service_show) \
	X(service_set) \
	X(service_waste) \
	X(backend_show) \
	X(backend_drain) \
	X(backend_ready) \
	X(backend_maintenance) \
	X(backend_report) \
	X(bind_show) \
	X(bind_drain) \
	X(bind_ready) \
	X(host_show) \
	X(host_drain) \
	X(host_maintenance) \
	X(host_ready) \
	X(weight_set) \
	X(canary_plan) \
	X(canary_start) \
	X(canary_show) \
	X(canary_stop) \
	X(shed_plan) \
	X(shed_start) \
	X(shed_stop) \
	X(subset_show) \
	X(flow_count) \
	X(flow_lookup) \
	X(flow_list) \
	X(flow_delete) \
	X(flow_clear) \
	X(flow_steals) \
	X(affinity_show) \
	X(affinity_lookup) \
	X(affinity_clear) \
	X(capture_start) \
	X(capture_read) \
	X(capture_stop) \
	X(worker_show) \
	X(worker_steal) \
	X(policy_compare) \
	X(port_show) \
	X(stats_show) \
	X(metrics_show) \
	X(health_show) \
	X(health_history) \
	X(audit_show) \
	X(config_diff) \
	X(config_reload) \
	X(config_waiting)

#define X(name) void weir_api_##name(struct weir_daemon *daemon, struct weir_api_call *call);
WEIR_API_COMMANDS(X)
#undef X
