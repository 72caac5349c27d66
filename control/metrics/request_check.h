// SPDX-License-Identifier: BSD-3-Clause
//
// Request checks: decide which requests are served. The owner of another web site can make the host
// name of that site resolve to the address of this server, so that a browser sends requests for
// that site to this server (DNS rebinding). To prevent DNS rebinding, the host in a request must be
// an address, localhost, or a name that the operator has allowed.
//
// Threads: any; no shared state.
#pragma once

#include <stdbool.h>

// Returns whether the host of a request is allowed. host: the Host header, with or without a port.
// names: the `count` names that the operator has allowed.
bool weir_request_host_allowed(const char *host, const char *const *names, unsigned int count);

// Returns whether the client prefers OpenMetrics. accept: the Accept header of the request; NULL =
// no such header.
bool weir_request_wants_openmetrics(const char *accept);
