// SPDX-License-Identifier: BSD-3-Clause
//
// Describes the canary of a service, for the audit and for metrics.show.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>

struct weir_api_call;
struct weir_daemon;

// Writes which service a canary request names (object: buffer of WEIR_AUDIT_OBJECT_BYTES), and the
// current state of that service's canary (value: buffer of WEIR_AUDIT_VALUE_BYTES; "" = no canary).
void weir_api_canary_describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value);
// Returns the state of the canary of a service, or null if there is no canary.
json_t *weir_json_canary_state(const struct weir_daemon *daemon, const char *service);
