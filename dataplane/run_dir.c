// SPDX-License-Identifier: BSD-3-Clause
#include "run_dir.h"

#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int weir_run_dir_group(const char *name, gid_t *ret, char *why, size_t why_bytes) {
	const struct group *entry = getgrnam(name != NULL ? name : WEIR_GROUP_DEFAULT);
	unsigned long gid;
	char *end;

	if (entry != NULL) {
		*ret = entry->gr_gid;
		return 0;
	}
	if (name == NULL) {
		*ret = (gid_t)-1;
		return 0;
	}
	errno = 0;
	gid = strtoul(name, &end, 10);
	if (name[0] < '0' || name[0] > '9' || *end != '\0' || errno != 0 || gid >= (gid_t)-1) {
		snprintf(why, why_bytes, "--group %s: no such group", name);
		return -ENOENT;
	}
	*ret = (gid_t)gid;
	return 0;
}

static int make_parents(const char *path) {
	char parent[PATH_MAX];

	if (strlen(path) >= sizeof(parent)) {
		return -ENAMETOOLONG;
	}
	strcpy(parent, path);
	for (char *slash = strchr(parent + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(parent, 0755) < 0 && errno != EEXIST) {
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

int weir_run_dir_make(const char *path, gid_t gid, char *why, size_t why_bytes) {
	struct stat st;
	int r = make_parents(path);

	if (r == 0 && mkdir(path, 0770) < 0) {
		r = -errno;
	} else if (r == 0 && (chown(path, (uid_t)-1, gid) < 0 || chmod(path, 0770) < 0)) {
		// The umask may have taken bits away; the group lets both processes in.
		r = -errno;
	}
	if (r == -EEXIST) {
		r = stat(path, &st) < 0 ? -errno : S_ISDIR(st.st_mode) ? 0 : -ENOTDIR;
	}
	if (r < 0) {
		snprintf(why, why_bytes, "run directory %s: %s", path, strerror(-r));
	}
	return r;
}
