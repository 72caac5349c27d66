// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP, HTTPS and gRPC probes: one request each by libcurl. Passes when the status is in the
// check's range and the body contains the check's text; gRPC passes when the service's status is
// SERVING (health_grpc.h). Redirects are not followed, proxies of the environment are ignored,
// names are not resolved, connections are not reused and end with a reset. TLS: a full handshake
// each.
//
// Threads: that of the loop.
#pragma once

#include <uv.h>

#include "health_curl.h"
#include "health_probe.h"

#define WEIR_HEALTH_NAME_BYTES 256

struct weir_health_http; // one probe

// Returns 0, or negative errno: done is not called then.
int weir_health_http_start(struct weir_health_curl *curl, const struct weir_probe_params *params,
	struct weir_health_http **ret);

// End it without calling done.
void weir_health_http_cancel(struct weir_health_http *http);

// The server name that TLS sends (SNI) and verifies; "" = none: the address is verified.
void weir_health_server_name(
	const struct weir_config_health_check *check, char name[WEIR_HEALTH_NAME_BYTES]);
