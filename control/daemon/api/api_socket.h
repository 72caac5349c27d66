// SPDX-License-Identifier: BSD-3-Clause
//
// Control socket: RUN_DIR/control/control.sock, listening: clients that connect before the loop
// runs wait for it. One weir-control per run directory: it holds a lock on
// RUN_DIR/control/control.pid, which the kernel releases when it dies. This distinguishes a stale
// socket file from one in use. Both are made by the user who runs weir-control, in a directory that
// only he can write.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "daemon_options.h"

#define WEIR_CONTROL_PID_FILE WEIR_CONTROL_DIR "/control.pid"
#define WEIR_CONTROL_BACKLOG 64 // clients that wait to be accepted

struct weir_api_socket {
	int fd; // listening socket, non-blocking; -1 once given away
	int lock_fd;
	char path[108];
	char pid_path[108];
};

// The group may connect to the socket (mode 0660), and not open the pid file (0600): whoever can
// open it can lock it. Returns 0, -EADDRINUSE (another one runs; why names its pid), or negative
// errno; why gets one line.
int weir_api_socket_open(
	const char *run_dir, struct weir_api_socket *ret, char *why, size_t why_bytes);

// Remove the files and release the lock.
void weir_api_socket_close(struct weir_api_socket *socket);
