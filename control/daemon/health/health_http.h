// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP, HTTPS and gRPC probes: each probe sends one request with libcurl. An HTTP or HTTPS probe
// passes if the status is in the check's range and the body passes the test of health_body.h. A
// gRPC probe passes if the service's status is SERVING (health_grpc.h). A state in the answer can
// determine the outcome instead (health_answer.h). Redirects are not followed, proxy environment
// variables are ignored, and names are not resolved. Connections are not reused, and are closed
// with a reset. Each TLS connection begins with a full handshake.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "health_curl.h"
#include "health_probe.h"

#define WEIR_HEALTH_NAME_BYTES 256

struct weir_health_http; // one probe

// Starts a probe. Returns 0, or negative errno; `done` is then not called.
int weir_health_http_start(struct weir_health_curl *curl, const struct weir_probe_params *params,
	struct weir_health_http **ret);

// End the probe without calling done.
void weir_health_http_cancel(struct weir_health_http *http);

// Gets the server name that TLS sends (SNI) and verifies; "" = no name is sent, and the certificate
// is verified for the address.
void weir_health_server_name(
	const struct weir_config_health_check *check, char name[WEIR_HEALTH_NAME_BYTES]);
