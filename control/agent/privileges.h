// SPDX-License-Identifier: BSD-3-Clause
//
// Privileges of `weir-agent run`: it starts as root, and drops root's privileges.
//
// Threads: call all of it before other threads are started.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct weir_agent_user {
	uid_t uid; // (uid_t)-1: keep the current user
	gid_t gid;
};

// Find the user to run as. user: as on the command line; NULL = `weir` if it exists, else `nobody`;
// when not root: the current user. Returns 0, -ENOENT or -EPERM with one line in why.
int weir_agent_user_find(
	const char *user, struct weir_agent_user *ret, char *why, size_t why_bytes);

// Switch to that user permanently, without any capability. On failure the process must end. Returns
// 0 or negative errno.
int weir_agent_privileges_drop(const struct weir_agent_user *user);

// Keep only CAP_BPF and CAP_PERFMON, as the current user. Returns 0 or negative errno.
int weir_agent_privileges_keep_bpf(void);

bool weir_agent_privileges_has_net_admin(void);
// Switch to that user, with CAP_NET_ADMIN only. Returns 0 or negative errno.
int weir_agent_privileges_keep_net_admin(const struct weir_agent_user *user);
