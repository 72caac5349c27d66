// SPDX-License-Identifier: BSD-3-Clause
//
// Privileges: a program that is started as root switches to another user, and keeps only some
// capabilities. All later file accesses have the rights of that user. Therefore a process with
// root's rights never follows a link that the user has created.
//
// Threads: call before other threads start.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/capability.h>
#include <sys/types.h>

struct weir_run_as {
	uid_t uid;
	gid_t gid;
	char user[64]; // name of the user, for messages
	bool change; // the process was started as root, and must change its uid and gid
	bool fallback; // the user is `nobody`, because there is no user `weir`
};

// Finds the user and group to run as. user, group: as on the command line; NULL = the default.
// Defaults without root: the user and the group of the process. Defaults as root: the user `weir`
// if it exists, otherwise `nobody`; the group default_group if it exists, otherwise the user's
// group. default_group may be NULL. Returns 0, or negative errno with one line in why: -ENOENT (no
// such user or group), -EPERM (a process without root cannot change its user or group), or the
// error of a lookup.
int weir_privileges_resolve(const char *user, const char *group, const char *default_group,
	struct weir_run_as *ret, char *why, size_t why_bytes);

// Switch permanently (NO_NEW_PRIVS, and with CAP_SETPCAP an empty bounding set) to this user and
// group, and keep only these capabilities. If run_as->change is false, the user and group stay.
// Returns 0 or negative errno; on failure the process must exit, because it may still have root's
// rights.
int weir_privileges_become(const struct weir_run_as *run_as, const cap_value_t *kept, int count);

// Switch to this user and group as weir_privileges_become does, and keep no capability.
int weir_privileges_drop(const struct weir_run_as *run_as);

// Keep only these capabilities, permanently, and do not change the user or group. Returns 0, -EPERM
// if the process lacks one of the capabilities, or another negative errno.
int weir_privileges_keep(const cap_value_t *kept, int count);

// Returns true if this capability is in the permitted set of the process.
bool weir_privileges_has(cap_value_t capability);
