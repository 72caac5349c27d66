// SPDX-License-Identifier: BSD-3-Clause
//
// API rights: determines which of the users who can connect to the socket of weir-control may make
// changes. All users who can connect have read access. The kernel reports the user and the groups
// that the client had when it connected.
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

// Determines the user of the client that is connected to a socket, and whether the client may make
// changes. admin_group: (gid_t)-1 = none. If the kernel does not report the user, the client may
// not make changes.
void weir_api_peer_read(int fd, gid_t admin_group, struct weir_api_peer *ret);
