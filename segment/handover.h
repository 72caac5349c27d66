// SPDX-License-Identifier: BSD-3-Clause
//
// Handover: how the segment gets from the dataplane to the control process.
//
// The dataplane listens on RUN_DIR/dataplane.sock. Who holds the segment decides where packets go,
// so it is handed to root, the dataplane's own user and that of the control process only, as the
// kernel names the peer (H1). The socket's mode keeps everybody else from even connecting, so
// nobody can fill its queue (H2); RUN_DIR must not be writable by others, so nobody can take its
// place.
//
// A control process connects and receives one message with the segment's descriptor and, per
// steered port, that of the steer program's VIP map. The connection stays open: its end tells
// either side that the other is gone (S3, S4). One control process at a time; a second one is
// refused, with the pid of the first.
//
// Threads: one, never a worker. Descriptors are non-blocking; poll them.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "layout.h"

#define WEIR_HANDOVER_SOCKET "dataplane.sock"

struct weir_handover { // what is handed over; fds are owned by the receiver
	int statistics_fd;
	int tables_fd;
	uint32_t vip_maps;
	int vip_map_fd[WEIR_PORTS_MAX]; // -1 = that port is not steered
};

// --- dataplane's side ---
struct weir_handover_server;

struct weir_handover_params {
	const char *run_dir;
	uid_t control_user; // may attach, (uid_t)-1 = only root and our own user
	gid_t group; // of control_user, (gid_t)-1 = leave: see weir_handover_listen
};

struct weir_handover_refusals { // because of H1
	uint64_t count; // since the last call
	uint64_t total;
	pid_t last_pid;
	uid_t last_uid;
};

// The socket belongs to control_user. Without root's powers it cannot be given away: then it is the
// group that can connect, and H2 does not hold. One dataplane per run directory: it holds a lock on
// RUN_DIR/dataplane.lock, which the kernel releases when it dies. A stale socket file is replaced,
// and one of somebody else; another dataplane's is -EADDRINUSE. Returns 0 or negative errno.
int weir_handover_listen(
	const struct weir_handover_params *params, struct weir_handover_server **ret);
void weir_handover_server_free(struct weir_handover_server *server); // removes socket and lock
// Accept new connections, detect closed ones. Call when poll() says so or every 100 ms.
// Returns the pid of the attached control process, 0 for none, or negative errno.
int weir_handover_serve(struct weir_handover_server *server, const struct weir_handover *offer);
void weir_handover_take_refusals(
	struct weir_handover_server *server, struct weir_handover_refusals *ret);
int weir_handover_server_fds(const struct weir_handover_server *server, int fds[2]); // for poll

// --- control's side ---
// Connect and receive. On success *ret_connection is a descriptor that becomes readable when the
// dataplane ends. why gets one line. Returns 0, -ENOENT / -ECONNREFUSED (no dataplane), -EBUSY
// (another control process is attached), -EACCES or -EPERM (the dataplane does not serve our user),
// -EPROTO (not a dataplane, or of another version), -ETIMEDOUT, or another negative errno.
int weir_handover_connect(const char *run_dir, struct weir_handover *ret, int *ret_connection,
	char *why, size_t why_bytes);
