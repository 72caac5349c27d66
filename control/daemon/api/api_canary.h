// SPDX-License-Identifier: BSD-3-Clause
//
// Describes the canary of a service, for the audit and for metrics.show.
//
// Threads: the thread of the loop.
#pragma once

#include <jansson.h>

struct weir_api_call;
struct weir_daemon;

// Writes the texts of a canary request for the audit log. object: buffer of WEIR_AUDIT_OBJECT_BYTES
// for SERVICE/BACKEND of the request. value: buffer of WEIR_AUDIT_VALUE_BYTES for the current state
// of the service's canary; unchanged if there is no canary.
void weir_api_canary_describe(const struct weir_daemon *daemon, const struct weir_api_call *call,
	char *object, char *value);
// Returns the state of the canary of a service, or null if there is no canary.
json_t *weir_json_canary_state(const struct weir_daemon *daemon, const char *service);
