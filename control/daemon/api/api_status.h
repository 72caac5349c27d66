// SPDX-License-Identifier: BSD-3-Clause
//
// Creates the result of the command status, also for metrics.show.
#pragma once

#include <jansson.h>

struct weir_daemon;

// X(NAME, "name", meaning)
#define WEIR_STATUS_LEVELS(X) \
	X(OK, "ok", "should get traffic") \
	X(WARNING, "warning", "should get traffic, but needs attention") \
	X(CRITICAL, "critical", "should not get traffic")

enum weir_status_level {
#define X(name, key, text) WEIR_STATUS_##name,
	WEIR_STATUS_LEVELS(X)
#undef X
};

// Returns an object {level, reasons, ...}: whether this instance should get traffic. only: id of
// the only service to consider; WEIR_SERVICE_NONE = a configured service that has no id yet;
// negative = all services. The caller owns the result; NULL = out of memory.
json_t *weir_json_status(struct weir_daemon *daemon, int only);
