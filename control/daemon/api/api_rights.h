// SPDX-License-Identifier: BSD-3-Clause
//
// API rights: who may change what weir-control does, of those who can connect to its socket. All of
// them may look. The kernel names the peer and its groups, as they were when it connected.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct weir_api_peer { // the client, as the kernel reports it
	pid_t pid;
	uid_t uid;
	gid_t gid;
	bool may_change; // root, our own user, or a member of the admin group
};

// admin_group: (gid_t)-1 = none. If the kernel does not name the peer, it may not change.
void weir_api_peer_learn(int fd, gid_t admin_group, struct weir_api_peer *ret);
