// SPDX-License-Identifier: BSD-3-Clause
//
// Run directory: where the sockets of both processes are. Whichever starts first makes it.
//
//   RUN_DIR           root:group 0750   the group may look in, not write: nobody else can put a
//     dataplane.sock                    socket where the dataplane's belongs
//     control/        user:group 0750   weir-control's own, as whom it runs
//       control.sock                    the group may connect
//
// "root" is whoever makes it: without root's powers, the user that runs both.
//
// Threads: main.
#pragma once

#include <stddef.h>
#include <sys/types.h>

#include "log.h"

// Make the directory for gid ((gid_t)-1 = our own), and its parents. Of one that exists, write
// permission for the group and for others is taken away, with a line in the log; it must belong to
// root, to us, or to user, weir-control's ((uid_t)-1 = not known), and be none that all users
// share. Returns 0 or negative errno (-EPERM: it belongs to somebody else, or to all; -ENOTDIR:
// something else has that name) with one line in why.
int weir_run_dir_make(const char *run_dir, uid_t user, gid_t gid, const struct weir_log *log,
	char *why, size_t why_bytes);

// Make weir-control's directory in it, for that user ((uid_t)-1 = us) and group.
// Returns as weir_run_dir_make.
int weir_run_dir_make_control(
	const char *run_dir, uid_t user, gid_t gid, char *why, size_t why_bytes);
