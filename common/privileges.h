// SPDX-License-Identifier: BSD-3-Clause
//
// Privileges: the user that a program started as root becomes, and the capabilities that it keeps.
// What it does afterwards it does as that user: root must not follow what the user may have put in
// a directory of its own.
//
// Threads: before any other is started.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/types.h>

struct weir_run_as {
	uid_t uid;
	gid_t gid;
	char user[64]; // for messages
	bool change; // started as root: becoming it changes uid and gid
};

// Whom to run as. user, group: as on the command line, NULL = the default: as root `weir` if there
// is such a user, else `nobody`, and default_group if there is such a group, else the user's (NULL
// = the user's); otherwise the user and group that the process has. Returns 0, -ENOENT (no such
// user or group), -EPERM (another user or group without root); why gets one line.
int weir_privileges_resolve(const char *user, const char *group, const char *default_group,
	struct weir_run_as *ret, char *why, size_t why_bytes);

// Become that user and group with these capabilities alone, for good (NO_NEW_PRIVS).
// Returns 0 or negative errno; on failure the process must end.
int weir_privileges_become(const struct weir_run_as *run_as, const cap_value_t *kept, int count);

// The same without any capability.
int weir_privileges_drop(const struct weir_run_as *run_as);

// The same as the present user. -EPERM if one of them is not there to be kept.
int weir_privileges_keep(const cap_value_t *kept, int count);

// Whether the process may use this capability.
bool weir_privileges_has(cap_value_t capability);
