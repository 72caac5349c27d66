// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP server: GET and HEAD of /metrics, and of the page at / with its files. All other requests
// are refused before their body is read.
//
// Guarantees:
//   H1 memory is bounded: WEIR_SERVER_CONNECTIONS at once, each with one request, at most
//      WEIR_SERVER_REQUEST_BYTES long, and their documents: requests within a second share one
//      document, and slow clients keep an older one until their connection ends.
//   H2 a connection ends after WEIR_SERVER_CONNECTION_MS at the latest; while more than
//      WEIR_SERVER_CROWDED are open, one without a complete request after WEIR_SERVER_SILENT_MS, or
//      a second more.
//   H3 a browser does not let another site read, embed or execute the content (request_check.h).
//
// Threads: one serves all connections, and none while it waits for weir-control. It inherits the
// creator's signal mask.
#pragma once

#include <sys/socket.h>

#include "documents.h"

#define WEIR_SERVER_CONNECTIONS 32
#define WEIR_SERVER_REQUEST_BYTES 16384
#define WEIR_SERVER_IDLE_S 10
#define WEIR_SERVER_CONNECTION_MS 30000u
#define WEIR_SERVER_CROWDED 24u
#define WEIR_SERVER_SILENT_MS 1000u

struct weir_server;

struct weir_server_params {
	int fd; // listening; owned by the server, unless creating it fails
	struct weir_documents *documents; // borrowed
	const char *const *hosts; // borrowed
	unsigned int host_count;
	struct weir_log *log; // borrowed
};

// Returns 0 or negative errno.
int weir_server_create(const struct weir_server_params *params, struct weir_server **ret);
// Ends all connections. NULL is allowed.
void weir_server_free(struct weir_server *server);

// End connections that are too old; call once a second.
void weir_server_second(struct weir_server *server);
