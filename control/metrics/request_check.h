// SPDX-License-Identifier: BSD-3-Clause
//
// Which requests are served at all. A web page anywhere can have its reader's browser ask this
// server, by a name of its own that it points here (DNS rebinding): so a request must name an
// address, localhost, or a name that the operator has allowed.
//
// Threads: pure functions.
#pragma once

#include <stdbool.h>

// host: the Host header, with or without a port.
bool weir_request_host_allowed(const char *host, const char *const *names, unsigned int count);

// Whether the client prefers OpenMetrics, by its Accept header; NULL = there is none.
bool weir_request_wants_openmetrics(const char *accept);
