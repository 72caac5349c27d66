// SPDX-License-Identifier: BSD-3-Clause
//
// Decides which requests are served. A foreign web page can make a browser send requests to this
// server under a name whose DNS entry the page controls (DNS rebinding). So a request must use an
// address, localhost, or a name that the operator has allowed.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>

// Whether the name of a request is allowed. host: the Host header, with or without a port.
bool weir_request_host_allowed(const char *host, const char *const *names, unsigned int count);

// Whether the client prefers OpenMetrics. accept: its Accept header; NULL = no such header.
bool weir_request_wants_openmetrics(const char *accept);
