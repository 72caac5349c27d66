// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP probes: one GET each by libcurl, on the loop, without threads or signals. Passes when the
// status is in the check's range. Redirects are answers like any other, proxies of the environment
// are ignored, connections are not reused and end with a reset.
//
// Threads: that of the loop.
#pragma once

#include <uv.h>

#include "health_probe.h"

#define WEIR_HEALTH_HTTP_BODY_BYTES 65536 // what is read of a body before the status decides

struct weir_health_curl; // the engine that all probes of a loop share
struct weir_health_http; // one probe

int weir_health_curl_create(uv_loop_t *loop, struct weir_health_curl **ret);
// All probes must have ended or been cancelled. Handles close in the next iterations of the loop.
void weir_health_curl_free(struct weir_health_curl *curl); // NULL is fine

// Returns 0, or negative errno: done is not called then.
int weir_health_http_start(struct weir_health_curl *curl, const struct weir_probe_params *params,
	struct weir_health_http **ret);

// End it without calling done.
void weir_health_http_cancel(struct weir_health_http *http);
