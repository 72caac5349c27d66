// SPDX-License-Identifier: BSD-3-Clause
//
// Handover: passes the segment from the dataplane to the control process, and ensures that a run
// directory has at most one dataplane.
//
// The dataplane listens on RUN_DIR/dataplane.sock. A process that has the segment can redirect all
// packets. Therefore the dataplane passes the segment only to root, to its own user and to the user
// of the control process; it checks the peer credentials from the kernel (H1). The socket's mode
// prevents other users from connecting and filling the queue of the socket (H2). RUN_DIR must not
// be writable by other users, who could otherwise replace the socket.
//
// A control process connects and receives one message. The message has the segment's descriptors
// and, for each steered port, the descriptor of the steer program's VIP map. The connection stays
// open: when one process exits, the other process detects the closed connection (S3 and S4,
// docs/design/architecture.md). Only one control process can be attached; a second control process
// is refused, and receives the pid of the attached process.
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
	int vip_map_fd[WEIR_PORTS_MAX]; // -1 = the port is not steered
};

// --- dataplane's side ---
struct weir_handover_server;

struct weir_handover_params {
	const char *run_dir;
	// User that is allowed to attach; (uid_t)-1 = only root and the dataplane's user
	uid_t control_user;
	gid_t group; // group of control_user; (gid_t)-1 = unchanged: see weir_handover_listen
};

struct weir_handover_refusals { // connections refused because of H1
	uint64_t count; // refusals since the last call of weir_handover_take_refusals
	uint64_t total;
	pid_t last_pid;
	uid_t last_uid;
};

// Listen on the socket, and make control_user its owner. If this process is not root, it cannot
// change the owner: if control_user is another user, the whole group can then connect, and H2 does
// not hold. Each run directory has at most one dataplane, which holds a lock on
// RUN_DIR/dataplane.lock; the kernel releases the lock when the process exits. This function
// replaces a socket on which no process listens, and a file of a user other than root, control_user
// and the dataplane's user. Returns 0, -EADDRINUSE (another dataplane is running), -EEXIST (the
// file is not a socket), or another negative errno.
int weir_handover_listen(
	const struct weir_handover_params *params, struct weir_handover_server **ret);
void weir_handover_server_free(struct weir_handover_server *server); // removes socket and lock
// Accept new connections, and detect that the attached process has exited. offer: the data that a
// control process receives when it attaches. Call when poll() reports an event, or every 100 ms.
// Returns the pid of the attached control process (1 if it is in another pid namespace), 0 for
// none, or negative errno if connections cannot be accepted (an attached process stays attached).
int weir_handover_serve(struct weir_handover_server *server, const struct weir_handover *offer);
void weir_handover_take_refusals(
	struct weir_handover_server *server, struct weir_handover_refusals *ret);
int weir_handover_server_fds(
	const struct weir_handover_server *server, int fds[2]); // descriptors for poll()

// --- control's side ---
// Connect to the dataplane and receive the segment. On success *ret_connection is a descriptor
// that becomes readable when the dataplane exits. why: receives one line that explains an error.
// Returns 0, -ENOENT / -ECONNREFUSED (no dataplane), -EBUSY (another control process is
// attached), -EACCES or -EPERM (this user is not allowed to attach), -EPROTO (not a dataplane, or
// a dataplane of another version), -ETIMEDOUT, or another negative errno.
int weir_handover_connect(const char *run_dir, struct weir_handover *ret, int *ret_connection,
	char *why, size_t why_bytes);
