// SPDX-License-Identifier: BSD-3-Clause
//
// Relay: a connection of a probe, handed to libcurl bit by bit.
//
// libcurl fails when it finds that a connection was reset, or that its request cannot be sent, even
// if a whole answer is there to be read. With TLS or HTTP/2 it returns only when a socket has
// nothing more to read: a server that sends messages without data (updates of keys, empty frames),
// faster than they are read, would keep the loop for as long as it likes. So libcurl connects to
// the relay, over a unix socket of which each read leaves a few kilobytes at most, and what is sent
// in all is bounded.
//
// Threads: that of the loop.
#pragma once

#include <uv.h>

#include "health_probe.h"

#define WEIR_HEALTH_RECEIVED_MOST (1u << 20) // bytes of a server, in one probe

#define WEIR_HEALTH_RELAY_DESCRIPTORS 3u // of a probe over a relay; 4 for a moment

struct weir_health_relay;

// The backend is connected: libcurl may connect to the abstract unix socket with this name, once.
// No other process can.
typedef void (*weir_health_relay_connected)(void *context, const char *name);
// The connection was not made, or -EMSGSIZE: too much was sent. error: negative errno. Called once;
// nothing comes after it.
typedef void (*weir_health_relay_failed)(void *context, int error);

// Connect as a probe is to. Returns 0 or negative errno.
int weir_health_relay_start(uv_loop_t *loop, const struct weir_probe_params *params,
	weir_health_relay_connected connected, weir_health_relay_failed failed, void *context,
	struct weir_health_relay **ret);

// Why the connection broke, after libcurl has read all that had come: negative errno; 0 = it did
// not.
int weir_health_relay_error(const struct weir_health_relay *relay);

// Handles close in the next iterations of the loop. NULL is fine.
void weir_health_relay_free(struct weir_health_relay *relay);
