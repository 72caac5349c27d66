// SPDX-License-Identifier: BSD-3-Clause
//
// Which requests are served. Any web page can make its reader's browser query this server under a
// name that the page points here (DNS rebinding): so a request must use an address, localhost, or a
// name that the operator has allowed.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>

// host: the Host header, with or without a port.
bool weir_request_host_allowed(const char *host, const char *const *names, unsigned int count);

// Whether the client prefers OpenMetrics, by its Accept header; NULL = no such header.
bool weir_request_wants_openmetrics(const char *accept);
