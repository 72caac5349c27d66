// SPDX-License-Identifier: BSD-3-Clause
//
// What requests for a change leave in the audit (audit.h): who asked, and what was before and
// after. And the handler audit.show.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"

struct weir_daemon;
struct weir_capture_request;
struct weir_difference;

// What a request concerns, and what of it changes.
enum weir_api_audit {
	WEIR_API_AUDIT_NONE,
	WEIR_API_AUDIT_ADMIN, // a backend's administrative state
	WEIR_API_AUDIT_WEIGHT, // its weight
	WEIR_API_AUDIT_POLICY, // of a service
	WEIR_API_AUDIT_STEALING, // between workers
	WEIR_API_AUDIT_RELOAD, // a file; the handler records what has changed
	WEIR_API_AUDIT_FLOW, // a flow is deleted; the handler records how many were
	WEIR_API_AUDIT_FLOWS, // those of a backend are; likewise
	WEIR_API_AUDIT_CAPTURE, // of packets; the handler records what is captured. captures.c has
				// the end
	// Changes nothing that stays: only refusals are recorded.
	WEIR_API_AUDIT_BACKEND,
	WEIR_API_AUDIT_SERVICE,
	WEIR_API_AUDIT_FILE,
	WEIR_API_AUDIT_READING, // of a capture
};

// Before anything is checked or done. When the call is answered, it is recorded. command: lives as
// long as the process.
void weir_api_audit_begin(struct weir_daemon *daemon, struct weir_api_call *call,
	const char *command, enum weir_api_audit kind);
// What a reload has changed; before its answer.
void weir_api_audit_reload(struct weir_api_call *call, const struct weir_difference *difference);
// What a capture, whose filter is the object, takes; before the answer.
void weir_api_audit_capture(
	struct weir_api_call *call, const struct weir_capture_request *request, uint32_t rate);
// How many flows were deleted; before the answer.
void weir_api_audit_deleted(struct weir_api_call *call, uint64_t flows);
