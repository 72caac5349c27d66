// SPDX-License-Identifier: BSD-3-Clause
//
// Privileges of `weir-agent run`: it starts as root, and keeps none of root's powers.
//
// Threads: before others are started.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct weir_agent_user {
	uid_t uid; // (uid_t)-1: stay who we are
	gid_t gid;
};

// Who to run as. user: as on the command line, NULL = `weir` if there is such a user, else
// `nobody`; not root: who we are. Returns 0, -ENOENT or -EPERM with one line in why.
int weir_agent_user_find(
	const char *user, struct weir_agent_user *ret, char *why, size_t why_bytes);

// Become that user, without any capability, for good. On failure the process must end.
// Returns 0 or negative errno.
int weir_agent_privileges_drop(const struct weir_agent_user *user);

// Keep CAP_BPF and CAP_PERFMON alone, as who we are. Returns 0 or negative errno.
int weir_agent_privileges_keep_bpf(void);

bool weir_agent_privileges_has_net_admin(void);
// Become that user, with CAP_NET_ADMIN alone. Returns 0 or negative errno.
int weir_agent_privileges_keep_net_admin(const struct weir_agent_user *user);
