// SPDX-License-Identifier: BSD-3-Clause
//
// Local socket: receives the commands of weir-agent on this host. Each connection has one request,
// a line of JSON, and one reply, also a line of JSON. Only root and the user who started the agent
// can connect.
//
// Threads: one, the event loop's.
#pragma once

#include <jansson.h>
#include <uv.h>

#include "log.h"

#define WEIR_LOCAL_SOCKET "agent.sock" // name of the socket in the run directory
// Maximum number of clients at the same time. A new client replaces the client that connected this
// number of clients earlier, if that client is still connected: it has sent no complete request,
// because a client is disconnected after the reply.
#define WEIR_LOCAL_SOCKET_CLIENTS 16

struct weir_local_client;

struct weir_local_socket {
	// Execute a request. Returns the reply, owned by the caller; NULL = out of memory.
	json_t *(*answer)(void *context, const json_t *request);
	void *context;
	int fd;
	struct weir_local_client *client[WEIR_LOCAL_SOCKET_CLIENTS];
	uint32_t next; // index of the next client, modulo the number of clients
	uv_poll_t poll;
};

// Create the socket; call this function before the privileges are dropped. Returns the descriptor,
// owned by the caller, or negative errno with one line in why.
int weir_local_socket_open(const char *run_dir, struct weir_log *log, char *why, size_t why_bytes);

// Start to accept clients. fd: descriptor from weir_local_socket_open. answer: see struct
// weir_local_socket. Returns 0 or negative errno.
int weir_local_socket_start(uv_loop_t *loop, int fd,
	json_t *(*answer)(void *context, const json_t *request), void *context,
	struct weir_local_socket *ret);
// Stop. Run the event loop after this call, so that libuv can close the handles.
void weir_local_socket_stop(struct weir_local_socket *local);
