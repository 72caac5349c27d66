// SPDX-License-Identifier: BSD-3-Clause
//
// API rights: which of the users who can connect to the socket of weir-control may make changes.
// All of them have read access. The kernel reports the peer and its groups at the time of
// connecting.
//
// Threads: any.
#pragma once

#include <stdbool.h>
#include <sys/types.h>

struct weir_api_peer { // the client, as the kernel reports it
	pid_t pid;
	uid_t uid;
	gid_t gid;
	bool may_change; // root, the user of weir-control, or a member of the admin group
};

// admin_group: (gid_t)-1 = none. If the kernel does not report the peer, it may not make changes.
void weir_api_peer_read(int fd, gid_t admin_group, struct weir_api_peer *ret);
