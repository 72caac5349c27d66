// SPDX-License-Identifier: BSD-3-Clause
//
// Run directory: contains the sockets of both processes. The process that starts first creates it.
//
//   RUN_DIR           root:group 0750   the group may enter, not write: no other user can create
//     dataplane.sock                    a socket in place of the dataplane's
//     control/        user:group 0750   owned by weir-control's user
//       control.sock                    the group may connect
//
// "root" is the user that creates it: without root privileges, the user that runs both.
//
// Threads: main.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "log.h"

// Make the directory for gid ((gid_t)-1 = our own), and its parents. If it exists, write permission
// for the group and others is removed, with a line in the log; it must belong to root, to us, or to
// user, that of weir-control ((uid_t)-1 = unknown), and must not be shared by all users. Returns 0
// or negative errno (-EPERM: it belongs to another user, or is shared by all; -ENOTDIR: the name is
// not a directory) with one line in why.
int weir_run_dir_make(const char *run_dir, uid_t user, gid_t gid, const struct weir_log *log,
	char *why, size_t why_bytes);

// Make weir-control's directory in it, for that user ((uid_t)-1 = us) and group. Returns like
// weir_run_dir_make.
int weir_run_dir_make_control(
	const char *run_dir, uid_t user, gid_t gid, char *why, size_t why_bytes);
