// SPDX-License-Identifier: BSD-3-Clause
//
// Control socket: listens on RUN_DIR/control/control.sock. A client that connects before the event
// loop runs is served when the loop runs. Only one weir-control runs per run directory: it locks
// RUN_DIR/control/control.pid. The kernel releases the lock when the process ends, so the lock
// shows whether an existing socket file is stale or in use. weir-control creates both files in a
// directory to which only its user can write.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "daemon_options.h"

#define WEIR_CONTROL_PID_FILE WEIR_CONTROL_DIR "/control.pid"
#define WEIR_CONTROL_BACKLOG 64 // maximum number of clients waiting to be accepted

struct weir_api_socket {
	int fd; // listening socket, non-blocking; -1 = ownership was transferred
	int lock_fd;
	char path[108];
	char pid_path[108];
};

// Checks that no other weir-control serves the control socket. Call this function at startup,
// before any change that persists when the process exits. Returns 0, or -EADDRINUSE with one line
// in why.
int weir_api_socket_check(const char *run_dir, char *why, size_t why_bytes);

// Create the control socket. The group of the socket can connect to it (mode 0660). The group
// cannot open the pid file (mode 0600), because any process that can open the pid file can lock it.
// Returns 0, -EADDRINUSE (another weir-control is running; why contains its pid if it is known), or
// another negative errno. On an error, why gets one line.
int weir_api_socket_open(
	const char *run_dir, struct weir_api_socket *ret, char *why, size_t why_bytes);

// Remove the socket and the pid file, and release the lock.
void weir_api_socket_close(struct weir_api_socket *socket);
