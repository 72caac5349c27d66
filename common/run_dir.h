// SPDX-License-Identifier: BSD-3-Clause
//
// Run directory: contains the sockets of weir-dataplane and weir-control. The process that starts
// first creates the directory. weir-agent has a run directory of its own
// (WEIR_AGENT_RUN_DIR_DEFAULT).
//
//   RUN_DIR           root:group 0750   the group may enter, but not write. Therefore no other user
//     dataplane.sock                    can replace this socket of the dataplane
//     control/        user:group 0750   owned by weir-control's user
//       control.sock                    the group may connect
//
// If the processes are started without root privileges, their user owns RUN_DIR instead of root.
//
// Threads: main.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "log.h"

// Create the run directory and its parent directories. gid: the group of a new run directory;
// (gid_t)-1 = the group of this process. user: the user of weir-control; (uid_t)-1 = unknown.
//
// An existing directory must belong to root, to the user of this process, or to `user`, and keeps
// its owner and group. The directory must not be shared with all users like /tmp. If the group or
// other users can write to the directory, this function removes the permission and logs a warning.
//
// Returns 0, or negative errno with one line in why: -EPERM (the directory belongs to another user,
// is shared, or others can write to it and its mode cannot be changed), -ENOTDIR (not a
// directory), ...
int weir_run_dir_make(const char *run_dir, uid_t user, gid_t gid, const struct weir_log *log,
	char *why, size_t why_bytes);

// Create weir-control's directory in the run directory. user: the owner of the directory; (uid_t)-1
// = the user of this process. gid: its group; (gid_t)-1 = the group of this process. An existing
// directory must belong to the owner or to the user of this process; it keeps its group if it
// belongs to the owner and only the owner can write to it. Return values as for weir_run_dir_make.
int weir_run_dir_make_control(
	const char *run_dir, uid_t user, gid_t gid, char *why, size_t why_bytes);
