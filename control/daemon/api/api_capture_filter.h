// SPDX-License-Identifier: BSD-3-Clause
//
// The filter of capture.start: converts it from JSON to the terms that workers compare with
// packets.
//
// Threads: the thread of the loop.
#pragma once

#include "api.h"
#include "captures.h"

struct weir_daemon;

// Writes the name of a capture for the audit: its filter as text, as given in the request, even if
// the request is invalid. ret: buffer of WEIR_AUDIT_OBJECT_BYTES.
void weir_api_capture_name(const struct weir_api_call *call, char *ret);
// Adds the argument `filter` to terms, if the request has it. terms: initialized to match all
// packets. The daemon must have tables. On an error, fails the call and returns false.
bool weir_api_capture_filter(
	struct weir_daemon *daemon, struct weir_api_call *call, struct weir_capture_terms *terms);
