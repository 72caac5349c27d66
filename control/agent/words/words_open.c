// SPDX-License-Identifier: BSD-3-Clause
//
// Creates the sockets of the services in the file system, for words.h.
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "accounts.h"
#include "foreign_descriptors.h"
#include "words.h"

#define BACKLOG 16

// Create the directory of the sockets in run_dir, and permit all users to search run_dir. run_dir
// belongs to root or to the user of this process, and no other user can write to it (run_dir.h).
// Returns a descriptor of the directory of the sockets, or negative errno.
static int make_dir(const char *run_dir) {
	const mode_t search = S_IXGRP | S_IXOTH;
	struct stat status;
	int fd, dir;

	fd = open(run_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0) {
		return -errno;
	}
	if (fstat(fd, &status) ||
		((status.st_mode & search) != search &&
			fchmod(fd, (status.st_mode & 07777) | search)) ||
		(mkdirat(fd, WEIR_WORDS_DIR, 0755) && errno != EEXIST)) {
		int r = -errno;

		close(fd);
		return r;
	}
	dir = openat(fd, WEIR_WORDS_DIR, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0 || fchmod(dir, 0755)) { // the mode must not depend on the umask
		int r = -errno;

		if (dir >= 0) {
			close(dir);
		}
		close(fd);
		return r;
	}
	close(fd);
	return dir;
}

// Removes the sockets of an earlier agent, which has exited, because agent.sock is not in use.
static void remove_sockets(const char *path) {
	DIR *dir = opendir(path);
	const struct dirent *entry;

	while (dir != NULL && (entry = readdir(dir)) != NULL) {
		size_t bytes = strlen(entry->d_name), end = strlen(WEIR_WORDS_SUFFIX);

		if (bytes > end && strcmp(entry->d_name + bytes - end, WEIR_WORDS_SUFFIX) == 0) {
			(void)unlinkat(dirfd(dir), entry->d_name, 0);
		}
	}
	if (dir != NULL) {
		closedir(dir);
	}
}

// Create a listening socket. Returns a descriptor, or negative errno.
static int open_socket(const struct sockaddr_un *address, uid_t uid) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), r;

	if (fd < 0) {
		return -errno;
	}
	weir_foreign_refuse(fd);
	// bind() creates the socket with this mode.
	if (fchmod(fd, 0600) || bind(fd, (const struct sockaddr *)address, sizeof(*address)) ||
		(uid != geteuid() && lchown(address->sun_path, uid, (gid_t)-1)) ||
		listen(fd, BACKLOG)) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

static int open_service(const char *run_dir, const struct weir_named_service *service, int *ret_fd,
	uid_t *ret_uid, char *why, size_t why_bytes) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	uid_t uid = geteuid();
	int r = 0;

	if (snprintf(address.sun_path, sizeof(address.sun_path),
		    "%s/" WEIR_WORDS_DIR "/%s" WEIR_WORDS_SUFFIX, run_dir,
		    service->name) >= (int)sizeof(address.sun_path)) {
		snprintf(why, why_bytes, "--run-dir: the name is too long for service %s",
			service->name);
		return -ENAMETOOLONG;
	}
	if (service->user[0] != '\0') {
		r = weir_account_user("allow-user", service->user, NULL, &uid, why, why_bytes);
	}
	if (r) {
		return r;
	}
	r = open_socket(&address, uid);
	if (r == -EPERM) {
		snprintf(why, why_bytes,
			"--allow-user %s=%s: cannot change the owner of the socket; run as root, "
			"with CAP_CHOWN, or as that user",
			service->user, service->name);
	} else if (r < 0) {
		snprintf(why, why_bytes, "cannot listen on %s: %s", address.sun_path, strerror(-r));
	}
	if (r < 0) {
		return r;
	}
	*ret_fd = r;
	*ret_uid = uid;
	return 0;
}

int weir_words_open(const char *run_dir, const struct weir_named_services *services,
	struct weir_word_listeners *ret, char *why, size_t why_bytes) {
	char path[160];
	int r = 0, dir;

	*ret = (struct weir_word_listeners){0};
	snprintf(path, sizeof(path), "%s/" WEIR_WORDS_DIR, run_dir);
	if (services->count == 0) {
		remove_sockets(path);
		return 0;
	}
	dir = make_dir(run_dir);
	if (dir < 0) {
		snprintf(why, why_bytes, "cannot create %s: %s", path, strerror(-dir));
		return dir;
	}
	close(dir);
	remove_sockets(path);
	for (uint32_t i = 0; r == 0 && i < services->count; i++) {
		r = open_service(
			run_dir, &services->service[i], &ret->fd[i], &ret->uid[i], why, why_bytes);
		ret->count += r == 0;
	}
	return r;
}

void weir_words_close(struct weir_word_listeners *listeners) {
	for (uint32_t i = 0; i < listeners->count; i++) {
		weir_foreign_close(listeners->fd[i]);
	}
	listeners->count = 0;
}
