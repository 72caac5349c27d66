// SPDX-License-Identifier: BSD-3-Clause
//
// Audit entries of requests for a change (audit.h): the user, and the values before and after. Also
// the handler audit.show.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"

struct weir_daemon;
struct weir_capture_request;
struct weir_difference;

// The object of a request, and the property that it changes.
enum weir_api_audit {
	WEIR_API_AUDIT_NONE,
	WEIR_API_AUDIT_ADMIN, // a backend's administrative state
	WEIR_API_AUDIT_HOST, // administrative states of the backends of a host
	WEIR_API_AUDIT_BINDS, // drain of binds
	WEIR_API_AUDIT_WEIGHT, // weight of a backend
	WEIR_API_AUDIT_CANARY, // of a service
	WEIR_API_AUDIT_POLICY, // of a service
	WEIR_API_AUDIT_STEALING, // between workers
	WEIR_API_AUDIT_RELOAD, // of a file; the handler records the changes
	WEIR_API_AUDIT_FLOW, // deletion of a flow; the handler records the number
	WEIR_API_AUDIT_FLOWS, // deletion of a backend's flows; the handler records the number
	WEIR_API_AUDIT_CAPTURE, // of packets; the handler records its limits, captures.c its end
	// No lasting change: only refusals are recorded.
	WEIR_API_AUDIT_BACKEND,
	WEIR_API_AUDIT_SERVICE,
	WEIR_API_AUDIT_FILE,
	WEIR_API_AUDIT_READING, // of a capture
};

// Call before anything is checked or done. The request is recorded when the call is answered.
// command: valid for the lifetime of the process.
void weir_api_audit_begin(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *command, enum weir_api_audit kind);
// Record the changes of a reload. Call before its answer.
void weir_api_audit_reload(struct weir_api_call *call, const struct weir_difference *difference);
// Record the limits of a capture, whose filter is the object. Call before its answer.
void weir_api_audit_capture(
	struct weir_api_call *call, const struct weir_capture_request *request, uint32_t rate);
// Record the number of deleted flows. Call before the answer.
void weir_api_audit_deleted(struct weir_api_call *call, uint64_t flows);