// SPDX-License-Identifier: BSD-3-Clause
//
// Handover: how the segment gets from the dataplane to the control process.
//
// The dataplane listens on RUN_DIR/dataplane.sock (mode 0660, its group from the command line). A
// control process connects and receives one message with the segment's descriptor and, per steered
// port, that of the steer program's VIP map. The connection stays open: its end tells either side
// that the other is gone (S3, S4). One control process at a time; a second one is refused, with the
// pid of the first.
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

// gid: group that may connect, (gid_t)-1 = leave. A stale socket file is replaced, a live one is
// -EADDRINUSE. Returns 0 or negative errno.
int weir_handover_listen(const char *run_dir, gid_t gid, struct weir_handover_server **ret);
void weir_handover_server_free(struct weir_handover_server *server); // unlinks the socket
// Accept new connections, detect closed ones. Call when poll() says so or every 100 ms. Only uid 0,
// our own uid, or a member of the group can connect (by the mode of the socket).
// Returns the pid of the attached control process, 0 for none, or negative errno.
int weir_handover_serve(struct weir_handover_server *server, const struct weir_handover *offer);
int weir_handover_server_fds(const struct weir_handover_server *server, int fds[2]); // for poll

// --- control's side ---
// Connect and receive. On success *ret_connection is a descriptor that becomes readable when the
// dataplane ends. why gets one line. Returns 0, -ENOENT / -ECONNREFUSED (no dataplane), -EBUSY
// (another control process is attached), -EACCES, -EPROTO, -ETIMEDOUT.
int weir_handover_connect(const char *run_dir, struct weir_handover *ret, int *ret_connection,
	char *why, size_t why_bytes);
