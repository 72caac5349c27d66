// SPDX-License-Identifier: BSD-3-Clause
//
// Privileges: weir-control is started as root or not, and needs root's powers for its directory in
// the run directory only. Everything in there it makes as the user it runs as: root must not follow
// what that user may have put there.
//
// Threads: before the event loop starts, while there is one thread.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct weir_run_as {
	uid_t uid;
	gid_t gid;
	char user[64]; // for messages
	bool change; // started as root: weir_privileges_drop changes to uid and gid
};

// Who to run as. user, group: as on the command line, NULL = the default: as root `weir` if there
// is such a user (group), else `nobody` (the user's group); otherwise who we are.
// Returns 0, -ENOENT (no such user or group), -EPERM (not root, and somebody else was asked for);
// why gets one line.
int weir_privileges_resolve(
	const char *user, const char *group, struct weir_run_as *ret, char *why, size_t why_bytes);

// Become that user and group without any capability, for good (NO_NEW_PRIVS).
// Returns 0 or negative errno; on failure the process must end.
int weir_privileges_drop(const struct weir_run_as *run_as);
