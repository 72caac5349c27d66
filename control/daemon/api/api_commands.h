// SPDX-License-Identifier: BSD-3-Clause
//
// API commands: the table of what can be asked (docs/control-api.md), and the checks that every
// request goes through before its handler sees it. Handlers are in the other api_*.c files.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"

struct weir_daemon;

// Check a request and hand it to its handler. context: the daemon.
void weir_api_dispatch(void *context, struct weir_api_call *call);

// --- for handlers: arguments, already checked against the table ---

// NULL when it was not given.
const char *weir_api_text(const struct weir_api_call *call, const char *name);
// fallback when it was not given or is null.
json_int_t weir_api_integer(
	const struct weir_api_call *call, const char *name, json_int_t fallback);

// The service that `service` names. Returns its id, or a negative number after the call was
// failed.
int weir_api_find_service(struct weir_daemon *daemon, struct weir_api_call *call);
// The one backend that `backend` and perhaps `service` name. Same returns.
int weir_api_find_backend(struct weir_daemon *daemon, struct weir_api_call *call);
// Whether there is a dataplane, or was one: what handlers that read the tables need. Else the call
// was failed.
bool weir_api_has_tables(const struct weir_daemon *daemon, struct weir_api_call *call);
// The same, attached now.
bool weir_api_has_dataplane(const struct weir_daemon *daemon, struct weir_api_call *call);

// Publish a change that was just made. Returns false after the call was failed.
bool weir_api_publish_now(struct weir_daemon *daemon, struct weir_api_call *call);

// --- handlers ---

#define WEIR_API_COMMANDS(X) \
	X(version) \
	X(service_show) \
	X(service_set) \
	X(backend_show) \
	X(backend_drain) \
	X(backend_ready) \
	X(backend_maintenance) \
	X(backend_report) \
	X(weight_set) \
	X(subset_show) \
	X(flow_count) \
	X(flow_lookup) \
	X(worker_show) \
	X(port_show) \
	X(stats_show) \
	X(health_show) \
	X(config_diff) \
	X(config_reload)

#define X(name) void weir_api_##name(struct weir_daemon *daemon, struct weir_api_call *call);
WEIR_API_COMMANDS(X)
#undef X
