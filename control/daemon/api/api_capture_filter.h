// SPDX-License-Identifier: BSD-3-Clause
//
// The filter of capture.start: from JSON to what workers compare packets with.
//
// Threads: one, that of the loop.
#pragma once

#include "api.h"
#include "captures.h"

struct weir_daemon;

// What a capture is called in the audit: its filter, as it was given. Also of a request that is
// wrong. ret: WEIR_AUDIT_OBJECT_BYTES.
void weir_api_capture_name(const struct weir_api_call *call, char *ret);
// Read `filter`, if there is one, into terms. There are tables. Returns false after the call was
// failed.
bool weir_api_capture_filter(
	struct weir_daemon *daemon, struct weir_api_call *call, struct weir_capture_terms *terms);
