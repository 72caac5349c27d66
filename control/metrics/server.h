// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP server: GET and HEAD of /metrics, of the page at /, and of what the page consists of.
// Everything else is refused before it is read.
//
// Guarantees:
//   H1 memory is bounded: WEIR_SERVER_CONNECTIONS at once, each with one request, at most
//      WEIR_SERVER_REQUEST_BYTES long, and the documents that they receive: those who ask within a
//      second share one, and slow ones keep an older one until their connection ends.
//   H2 a connection ends after WEIR_SERVER_CONNECTION_MS, whatever its client does.
//   H3 a browser lets no other site read, show or run what is served (request_check.h).
//
// Threads: one that serves all connections. While it waits for weir-control, it serves none. It
// blocks signals if its maker does.
#pragma once

#include <sys/socket.h>

#include "documents.h"

#define WEIR_SERVER_CONNECTIONS 32
#define WEIR_SERVER_REQUEST_BYTES 16384
#define WEIR_SERVER_IDLE_S 10
#define WEIR_SERVER_CONNECTION_MS 30000

struct weir_server;

struct weir_server_params {
	int fd; // listening; the server's from here on, unless it cannot be created
	struct weir_documents *documents; // borrowed
	const char *const *hosts; // borrowed
	unsigned int host_count;
	struct weir_log *log; // borrowed
};

// Returns 0 or negative errno.
int weir_server_create(const struct weir_server_params *params, struct weir_server **ret);
// Ends all connections. NULL is fine.
void weir_server_free(struct weir_server *server);

// End connections that are too old; call it once a second.
void weir_server_second(struct weir_server *server);
