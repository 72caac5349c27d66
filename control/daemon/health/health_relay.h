// SPDX-License-Identifier: BSD-3-Clause
//
// Relay: passes the data of a probe's connection to libcurl in small parts.
//
// libcurl needs a relay for two reasons. When a connection is reset, or when a request cannot be
// sent, libcurl fails even if a complete answer can be read. And with TLS or HTTP/2, libcurl
// returns only when a socket has no more data. A server that sends messages without payload (key
// updates, empty frames) faster than libcurl reads them could therefore block the loop
// indefinitely.
// So libcurl connects to the relay over a unix socket that buffers at most a few kilobytes. The
// relay limits the total number of bytes received from the server.
//
// Threads: only the event loop's thread.
#pragma once

#include <uv.h>

#include "health_probe.h"

// Maximum number of bytes received from a server in one request.
#define WEIR_HEALTH_RECEIVED_MOST (1u << 20)

// Number of file descriptors that a probe through a relay uses; for a short time it uses 4.
#define WEIR_HEALTH_RELAY_DESCRIPTORS 3u

struct weir_health_relay;

// Called when the connection to the backend is established. libcurl can then connect once to the
// abstract unix socket with this name. Connections of other processes are closed.
typedef void (*weir_health_relay_connected)(void *context, const char *name);
// Called when connecting or listening has failed, when libcurl's connection could not be accepted,
// or when the server has sent more than WEIR_HEALTH_RECEIVED_MOST bytes (-EMSGSIZE). error:
// negative errno. Called at most once; no callback follows.
typedef void (*weir_health_relay_failed)(void *context, int error);

// Connect to the backend of a probe. Returns 0, or negative errno; then no callback follows.
int weir_health_relay_start(uv_loop_t *loop, const struct weir_probe_params *params,
	weir_health_relay_connected connected, weir_health_relay_failed failed, void *context,
	struct weir_health_relay **ret);

// Returns whether libcurl has connected. libcurl can connect only once.
bool weir_health_relay_is_joined(const struct weir_health_relay *relay);

// Returns the error that ended the connection to the backend, as negative errno; 0 = no error. The
// error can be set before libcurl has read all data that was received before the error.
int weir_health_relay_error(const struct weir_health_relay *relay);

// Frees the relay; its libuv handles are closed in the next iterations of the loop. NULL is
// allowed.
void weir_health_relay_free(struct weir_health_relay *relay);
