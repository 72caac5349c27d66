// SPDX-License-Identifier: BSD-3-Clause
#include "run_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "daemon_options.h"

#define MODE 0750
#define OTHERS_WRITE (S_IWGRP | S_IWOTH)

static int make_parents(const char *path) {
	char parent[PATH_MAX];

	if (path[0] == '\0') {
		return -ENOENT;
	}
	if (snprintf(parent, sizeof(parent), "%s", path) >= (int)sizeof(parent)) {
		return -ENAMETOOLONG;
	}
	for (char *slash = strchr(parent + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdir(parent, 0755) < 0 && errno != EEXIST) {
			return -errno;
		}
		*slash = '/';
	}
	return 0;
}

// Creates a directory unless it exists, and opens it. The caller uses the descriptor for later
// changes, so that they apply to this directory even if another user replaces the directory with
// another file. *ret_made: the directory did not exist before. Returns the descriptor or negative
// errno.
static int open_or_make(const char *path, bool *ret_made, struct stat *ret_stat) {
	bool made = mkdir(path, 0700) == 0;
	int fd;

	if (!made && errno != EEXIST) {
		return -errno;
	}
	fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	// A directory of another user may be unreadable; the callers check the owner.
	if (fd < 0 && errno == EACCES) {
		fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	}
	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, ret_stat) < 0) {
		int r = -errno;

		close(fd);
		return r;
	}
	*ret_made = made;
	return fd;
}

// Sets the mode, user and group of an open directory; (uid_t)-1 and (gid_t)-1 = unchanged. mkdir
// alone cannot set the mode, because it clears the bits of the umask. Returns 0 or negative errno.
static int give(int fd, uid_t user, gid_t gid) {
	return fchmod(fd, MODE) < 0 || fchown(fd, user, gid) < 0 ? -errno : 0;
}

static bool is_trusted(uid_t owner, uid_t user) {
	return owner == 0 || owner == geteuid() || (user != (uid_t)-1 && owner == user);
}

static int check_existing(int fd, const struct stat *st, const char *run_dir, uid_t user,
	const struct weir_log *log, char *why, size_t why_bytes) {
	mode_t mode = st->st_mode & 07777;

	if (!is_trusted(st->st_uid, user)) {
		snprintf(why, why_bytes,
			"run directory %s belongs to user %u, who could replace the sockets in it: "
			"remove the directory, or change its owner to root (chown root %s; chmod "
			"750 %s)",
			run_dir, (unsigned int)st->st_uid, run_dir, run_dir);
		return -EPERM;
	}
	if ((mode & OTHERS_WRITE) == 0) {
		return 0;
	}
	if ((mode & S_ISVTX) != 0) { // a directory for all users, like /tmp
		snprintf(why, why_bytes,
			"run directory %s is shared with all users (mode %04o): choose a directory "
			"for Weir alone; Weir creates it",
			run_dir, (unsigned int)mode);
		return -EPERM;
	}
	if (fchmod(fd, mode & ~(mode_t)OTHERS_WRITE) < 0) {
		snprintf(why, why_bytes,
			"run directory %s is writable by users other than its owner, who could "
			"replace the sockets in it: chmod 750 %s",
			run_dir, run_dir);
		return -EPERM;
	}
	weir_log_write(log, WEIR_LOG_WARN,
		"run directory %s was writable by others (mode %04o); changed to %04o", run_dir,
		(unsigned int)mode, (unsigned int)(mode & ~(mode_t)OTHERS_WRITE));
	return 0;
}

int weir_run_dir_make(const char *run_dir, uid_t user, gid_t gid, const struct weir_log *log,
	char *why, size_t why_bytes) {
	int r = make_parents(run_dir);
	struct stat st = {0};
	bool made = false;
	int fd;

	fd = r < 0 ? r : open_or_make(run_dir, &made, &st);
	if (fd < 0) {
		snprintf(why, why_bytes, "run directory %s: %s", run_dir, strerror(-fd));
		return fd;
	}
	if (made) {
		r = give(fd, (uid_t)-1, gid);
		if (r < 0) {
			snprintf(why, why_bytes, "run directory %s: %s", run_dir, strerror(-r));
			rmdir(run_dir);
		}
	} else {
		r = check_existing(fd, &st, run_dir, user, log, why, why_bytes);
	}
	close(fd);
	return r;
}

int weir_run_dir_make_control(
	const char *run_dir, uid_t user, gid_t gid, char *why, size_t why_bytes) {
	uid_t owner = user != (uid_t)-1 ? user : geteuid();
	char path[PATH_MAX];
	struct stat st = {0};
	bool made = false;
	int fd, r = 0;

	if (snprintf(path, sizeof(path), "%s/" WEIR_CONTROL_DIR, run_dir) >= (int)sizeof(path)) {
		snprintf(why, why_bytes, "run directory %s: name too long", run_dir);
		return -ENAMETOOLONG;
	}
	fd = open_or_make(path, &made, &st);
	if (fd < 0) {
		snprintf(why, why_bytes, "%s: %s%s", path, strerror(-fd),
			fd == -EACCES ? ": start weir-control as root, or start weir-dataplane "
					"with the user of weir-control as --control-user"
				      : "");
		return fd;
	}
	if (st.st_uid != owner && st.st_uid != geteuid()) {
		snprintf(why, why_bytes,
			"%s belongs to user %u, not to the user of weir-control (%u): remove the "
			"directory, and set --control-user of weir-dataplane to the user of "
			"weir-control",
			path, (unsigned int)st.st_uid, (unsigned int)owner);
		r = -EPERM;
	} else if (made || st.st_uid != owner || (st.st_mode & OTHERS_WRITE) != 0) {
		r = give(fd, user, gid);
		if (r < 0) {
			snprintf(why, why_bytes, "%s: %s", path, strerror(-r));
		}
	}
	close(fd);
	return r;
}
