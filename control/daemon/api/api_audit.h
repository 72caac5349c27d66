// SPDX-License-Identifier: BSD-3-Clause
//
// Creates audit entries (audit.h) for requests for a change, with the user and the values before
// and after the change. api_audit.c also contains the handler of audit.show.
//
// Threads: the thread of the loop.
#pragma once

#include "api.h"

struct weir_daemon;
struct weir_capture_request;
struct weir_difference;

// What a request changes.
enum weir_api_audit {
	WEIR_API_AUDIT_NONE,
	WEIR_API_AUDIT_ADMIN, // administrative state of a backend
	WEIR_API_AUDIT_HOST, // administrative states of the backends of a host
	WEIR_API_AUDIT_BINDS, // drained binds of a service or VIP
	WEIR_API_AUDIT_WEIGHT, // weight of a backend
	WEIR_API_AUDIT_CANARY, // canary of a service
	WEIR_API_AUDIT_SHED, // shed of a backend
	WEIR_API_AUDIT_POLICY, // policy of a service
	WEIR_API_AUDIT_STEALING, // stealing of buckets between workers
	WEIR_API_AUDIT_RELOAD, // reload of a configuration file; the handler records the changes
	WEIR_API_AUDIT_FLOW, // deletion of a flow; the handler records the number of deleted flows
	// deletion of a backend's flows; the handler records the number of deleted flows
	WEIR_API_AUDIT_FLOWS,
	// deletion of affinity entries; the handler records their number
	WEIR_API_AUDIT_AFFINITY,
	// capture of packets; the handler records its limits, and captures.c records its end
	WEIR_API_AUDIT_CAPTURE,
	// The kinds below make no lasting change; only failed requests are recorded.
	WEIR_API_AUDIT_BACKEND,
	WEIR_API_AUDIT_SERVICE,
	WEIR_API_AUDIT_FILE,
	WEIR_API_AUDIT_READING, // a client reads captured packets
};

// Begin an audit entry for a request. Call this function before the request is checked or executed.
// The entry is added when the call is answered. If out of memory, the request is only logged.
// command: valid for the lifetime of the process.
void weir_api_audit_begin(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *command, enum weir_api_audit kind);
// Record the changes of a reload. Call this function before the reload is answered.
void weir_api_audit_reload(struct weir_api_call *call, const struct weir_difference *difference);
// Record the limits of a capture; the object of the audit entry is the filter of the capture. Call
// this function before capture.start is answered.
void weir_api_audit_capture(
	struct weir_api_call *call, const struct weir_capture_request *request, uint32_t rate);
// Record the number of deleted flows or affinity entries, for example with noun "flow" and verb
// "deleted". Call this function before the deletion is answered.
void weir_api_audit_removed(
	struct weir_api_call *call, uint64_t count, const char *noun, const char *verb);
