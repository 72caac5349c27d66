// SPDX-License-Identifier: BSD-3-Clause
//
// Connecting to a backend: what the probes over TCP share.
#pragma once

#include <netinet/in.h>
#include <string.h>
#include <uv.h>

#include "health_probe.h"

// The socket of a flow, which is the caller's from here on, or -1: it was taken already.
static inline int weir_health_take_socket(struct weir_data_path_flow *flow) {
	int fd = flow->socket;

	flow->socket = -1;
	return fd;
}

// Returns 0 or negative errno: on_connect is not called then.
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
