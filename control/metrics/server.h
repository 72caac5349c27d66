// SPDX-License-Identifier: BSD-3-Clause
//
// HTTP server: answers GET and HEAD requests for /metrics, for the page at /, and for the files and
// the data of the page. All other requests are refused before their body is read.
//
// Guarantees:
//   H1 memory is bounded. There are at most WEIR_SERVER_CONNECTIONS connections at a time, each
//      with one request of at most WEIR_SERVER_REQUEST_BYTES and one document. Requests share a
//      document while it is cached (documents.h). If a client is slow, an older document stays in
//      memory until the client's connection is closed.
//   H2 a connection is closed after WEIR_SERVER_IDLE_S without traffic, and at most a second after
//      it is WEIR_SERVER_CONNECTION_MS old. While more than WEIR_SERVER_CROWDED connections are
//      open, a connection without a complete request is closed at most a second after it is
//      WEIR_SERVER_SILENT_MS old. A pending request to weir-control delays the close until the
//      request ends.
//   H3 other web sites cannot read, embed or execute the content in a browser (request_check.h).
//
// Threads: one thread serves all connections; while it waits for weir-control, no connection is
// served. The thread inherits the signal mask of the thread that creates the server.
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
	// Listening socket; owned by the server. If weir_server_create fails, libmicrohttpd may
	// have closed it.
	int fd;
	struct weir_documents *documents; // borrowed
	const char *const *hosts; // borrowed
	unsigned int host_count;
	struct weir_log *log; // borrowed
};

// Create and start the server. Returns 0 or negative errno.
int weir_server_create(const struct weir_server_params *params, struct weir_server **ret);
// Closes all connections and frees the server. NULL is allowed.
void weir_server_free(struct weir_server *server);

// Closes connections that are too old (H2). Call this function once a second.
void weir_server_second(struct weir_server *server);
