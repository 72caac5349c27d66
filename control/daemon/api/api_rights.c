// SPDX-License-Identifier: BSD-3-Clause
#include "api_rights.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define GROUPS_FIRST 64 // initial number of elements; most processes have fewer groups

// Returns the supplementary groups of the client; the caller frees them. *ret_count: their number.
// If the groups are unknown, returns NULL and leaves *ret_count unchanged.
static gid_t *peer_groups(int fd, size_t *ret_count) {
	socklen_t bytes = GROUPS_FIRST * sizeof(gid_t);
	gid_t *groups = NULL;

	for (int tries = 0; tries < 2; tries++) {
		gid_t *grown = realloc(groups, bytes > 0 ? bytes : 1);

		if (grown == NULL) {
			break;
		}
		groups = grown;
		if (getsockopt(fd, SOL_SOCKET, SO_PEERGROUPS, groups, &bytes) == 0) {
			*ret_count = bytes / sizeof(gid_t);
			return groups;
		}
		if (errno != ERANGE) { // on ERANGE, `bytes` is the required size
			break;
		}
	}
	free(groups);
	return NULL;
}

static bool has_group(int fd, gid_t primary, gid_t wanted) {
	size_t count = 0;
	gid_t *groups;
	bool found = primary == wanted;

	if (found) {
		return true;
	}
	groups = peer_groups(fd, &count);
	for (size_t i = 0; i < count && !found; i++) {
		found = groups[i] == wanted;
	}
	free(groups);
	return found;
}

void weir_api_peer_read(int fd, gid_t admin_group, struct weir_api_peer *ret) {
	struct ucred peer = {.uid = (uid_t)-1};
	socklen_t bytes = sizeof(peer);

	*ret = (struct weir_api_peer){.uid = (uid_t)-1};
	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) < 0 || peer.uid == (uid_t)-1) {
		return;
	}
	ret->pid = peer.pid;
	ret->uid = peer.uid;
	ret->gid = peer.gid;
	ret->may_change = peer.uid == 0 || peer.uid == geteuid() ||
			  (admin_group != (gid_t)-1 && has_group(fd, peer.gid, admin_group));
}
