// SPDX-License-Identifier: BSD-3-Clause
//
// Handover: passes the segment from the dataplane to the control process.
//
// The dataplane listens on RUN_DIR/dataplane.sock. A process with the segment controls where
// packets go, so it is passed only to root, the dataplane's own user and the user of the control
// process, verified by the peer credentials of the kernel (H1). The socket's mode prevents other
// users from connecting, so they cannot fill its queue (H2); RUN_DIR must not be writable by
// others, so they cannot replace the socket.
//
// A control process connects and receives one message with the segment's descriptor and, per
// steered port, that of the steer program's VIP map. The connection stays open: its end indicates
// to either side that the other has ended (S3, S4). One control process at a time; a second one is
// refused, with the pid of the first.
//
// Threads: one, never a worker. Descriptors are non-blocking; poll them.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "layout.h"

#define WEIR_HANDOVER_SOCKET "dataplane.sock"
#define WEIR_HANDOVER_LOCK "dataplane.lock"

struct weir_handover { // the receiver owns the fds
	int statistics_fd;
	int tables_fd;
	uint32_t vip_maps;
	int vip_map_fd[WEIR_PORTS_MAX]; // -1 = that port is not steered
};

// --- dataplane's side ---
struct weir_handover_server;

struct weir_handover_params {
	const char *run_dir;
	uid_t control_user; // may attach; (uid_t)-1 = only root and the dataplane's user
	gid_t group; // of control_user; (gid_t)-1 = unchanged: see weir_handover_listen
};

struct weir_handover_refusals { // because of H1
	uint64_t count; // since the last call
	uint64_t total;
	pid_t last_pid;
	uid_t last_uid;
};

// The socket is owned by control_user. Without root's privileges its owner cannot be changed: then
// the group can connect, and H2 does not hold. One dataplane per run directory: it holds a lock on
// RUN_DIR/dataplane.lock, which the kernel releases when the process ends. A stale socket file, or
// one of another program, is replaced; if another dataplane is running, returns -EADDRINUSE.
// Returns 0 or negative errno.
int weir_handover_listen(
	const struct weir_handover_params *params, struct weir_handover_server **ret);
void weir_handover_server_free(struct weir_handover_server *server); // removes socket and lock
// Accept new connections, detect closed ones. Call when poll() reports an event, or every 100 ms.
// Returns the pid of the attached control process, 0 for none, or negative errno.
int weir_handover_serve(struct weir_handover_server *server, const struct weir_handover *offer);
void weir_handover_take_refusals(
	struct weir_handover_server *server, struct weir_handover_refusals *ret);
int weir_handover_server_fds(const struct weir_handover_server *server, int fds[2]); // for poll

// --- control's side ---
// Connect and receive. On success *ret_connection is a descriptor that becomes readable when the
// dataplane ends. why gets one line. Returns 0, -ENOENT / -ECONNREFUSED (no dataplane), -EBUSY
// (another control process is attached), -EACCES or -EPERM (the dataplane does not serve this
// user), -EPROTO (not a dataplane, or of another version), -ETIMEDOUT, or another negative errno.
int weir_handover_connect(const char *run_dir, struct weir_handover *ret, int *ret_connection,
	char *why, size_t why_bytes);
