// SPDX-License-Identifier: BSD-3-Clause
//
// Functions shared by all probes over TCP: connecting to a backend, and errors of connections.
#pragma once

#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <uv.h>

#include "health_probe.h"

// Returns whether a connection was established. status: result of connecting. ECONNRESET and EPIPE
// mean that the backend accepted the connection, and reset it before the loop polled the socket; an
// answer may still be readable. If the backend refuses the connection, the result is ECONNREFUSED.
static inline bool weir_health_was_connected(int status) {
	return status == 0 || status == UV_ECONNRESET || status == UV_EPIPE;
}

// Returns why a connection has ended: negative errno, or 0 if the backend closed the connection.
// reported: result of the read, from libuv. If data arrived before a reset, libuv reports only end
// of file, so this function also reads SO_ERROR.
static inline int weir_health_read_error(const uv_tcp_t *socket, ssize_t reported) {
	socklen_t bytes = sizeof(int);
	int error = 0, fd = -1;

	if (reported != UV_EOF) {
		return (int)reported;
	}
	if (uv_fileno((const uv_handle_t *)socket, &fd) == 0 &&
		getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0) {
		return -error;
	}
	return 0;
}

// Takes ownership of a flow's socket. Returns the socket, or -1 if another caller has taken it.
static inline int weir_health_take_socket(struct weir_data_path_flow *flow) {
	int fd = flow->socket;

	flow->socket = -1;
	return fd;
}

// Starts to connect. Returns 0, or negative errno; on_connect is then not called.
static inline int weir_health_connect(uv_connect_t *connect, uv_tcp_t *socket,
	const struct weir_probe_params *params, uv_connect_cb on_connect) {
	const struct weir_address *address = &params->address;
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(params->port)};
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(params->port)};

	if (params->flow != NULL) {
		int r = uv_tcp_open(socket, params->flow->socket);

		if (r) {
			return r;
		}
		weir_health_take_socket(params->flow);
	}
	if (address->family == 4) {
		memcpy(&in.sin_addr, address->bytes, sizeof(in.sin_addr));
		return uv_tcp_connect(connect, socket, (struct sockaddr *)&in, on_connect);
	}
	memcpy(&in6.sin6_addr, address->bytes, sizeof(in6.sin6_addr));
	return uv_tcp_connect(connect, socket, (struct sockaddr *)&in6, on_connect);
}
