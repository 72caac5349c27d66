// SPDX-License-Identifier: BSD-3-Clause
#include "api_socket.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

static int refuse(const char *run_dir, pid_t pid, char *why, size_t why_bytes) {
	char who[32] = "";

	if (pid > 0) {
		snprintf(who, sizeof(who), " (pid %d)", (int)pid);
	}
	snprintf(why, why_bytes,
		"weir-control%s is already running with run directory %s: stop it, or use another "
		"--run-dir",
		who, run_dir);
	return -EADDRINUSE;
}

static pid_t read_pid(int fd) {
	char text[32] = "";
	ssize_t n = pread(fd, text, sizeof(text) - 1, 0);

	return n > 0 ? (pid_t)strtol(text, NULL, 10) : 0;
}

// Opens and locks the pid file. The previous owner may remove the file between open() and flock(),
// so the lock is valid only if the path still leads to the locked file. *ret_owner: if locking
// fails, the pid in the file; 0 = unknown.
static int lock_pid_file(const char *path, int *ret_fd, pid_t *ret_owner) {
	for (;;) {
		struct stat mine, named;
		int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

		if (fd < 0) {
			return -errno;
		}
		if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
			int r = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;

			*ret_owner = read_pid(fd);
			close(fd);
			return r;
		}
		if (fstat(fd, &mine) == 0 && stat(path, &named) == 0 &&
			mine.st_ino == named.st_ino && mine.st_dev == named.st_dev) {
			*ret_fd = fd;
			return 0;
		}
		close(fd);
	}
}

static int write_pid(int fd) {
	char text[32];
	int n = snprintf(text, sizeof(text), "%d\n", (int)getpid());

	if (fchmod(fd, 0600) < 0 || ftruncate(fd, 0) < 0 || pwrite(fd, text, (size_t)n, 0) != n) {
		return -errno;
	}
	return 0;
}

// Returns the pid of the process that serves this socket, -1 if its pid is not known, or 0 if no
// process serves the socket.
static pid_t serving(const struct sockaddr_un *address) {
	struct ucred peer = {0};
	socklen_t bytes = sizeof(peer);
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	pid_t pid = 0;

	if (fd < 0) {
		return 0;
	}
	if (connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
		errno == EAGAIN) {
		pid = getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) == 0 ? peer.pid : 0;
		pid = pid > 0 ? pid : -1;
	}
	close(fd);
	return pid;
}

static int bind_socket(const struct sockaddr_un *address, int *ret_fd) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t mask;
	int r;

	if (fd < 0) {
		return -errno;
	}
	if (unlink(address->sun_path) < 0 && errno != ENOENT) {
		r = -errno;
		goto close_fd;
	}
	mask = umask(0117); // the socket is never accessible to other users, not even briefly
	r = bind(fd, (const struct sockaddr *)address, sizeof(*address)) < 0 ? -errno : 0;
	umask(mask);
	if (r < 0) {
		goto close_fd;
	}
	// After listen(), clients that connect wait until the loop serves them. Earlier connections
	// are refused.
	if (listen(fd, WEIR_CONTROL_BACKLOG) < 0) {
		r = -errno;
		goto close_fd;
	}
	*ret_fd = fd;
	return 0;
close_fd:
	close(fd);
	return r;
}

int weir_api_socket_check(const char *run_dir, char *why, size_t why_bytes) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t owner;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/" WEIR_CONTROL_SOCKET,
		    run_dir) >= (int)sizeof(address.sun_path)) {
		return 0; // weir_api_socket_open reports that the path is too long
	}
	owner = serving(&address);
	return owner != 0 ? refuse(run_dir, owner, why, why_bytes) : 0;
}

int weir_api_socket_open(
	const char *run_dir, struct weir_api_socket *ret, char *why, size_t why_bytes) {
	struct weir_api_socket opened = {.fd = -1, .lock_fd = -1};
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	pid_t owner = 0;
	int r;

	if (snprintf(opened.path, sizeof(opened.path), "%s/" WEIR_CONTROL_SOCKET, run_dir) >=
			(int)sizeof(address.sun_path) ||
		snprintf(opened.pid_path, sizeof(opened.pid_path), "%s/" WEIR_CONTROL_PID_FILE,
			run_dir) >= (int)sizeof(opened.pid_path)) {
		snprintf(why, why_bytes, "run directory %s: name too long", run_dir);
		return -ENAMETOOLONG;
	}
	memcpy(address.sun_path, opened.path, sizeof(address.sun_path));
	r = lock_pid_file(opened.pid_path, &opened.lock_fd, &owner);
	if (r == -EADDRINUSE) {
		return refuse(run_dir, owner, why, why_bytes);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", opened.pid_path, strerror(-r));
		return r;
	}
	owner = serving(&address);
	if (owner != 0) {
		close(opened.lock_fd);
		return refuse(run_dir, owner, why, why_bytes);
	}
	r = write_pid(opened.lock_fd);
	if (r == 0) {
		r = bind_socket(&address, &opened.fd);
	}
	if (r < 0) {
		snprintf(why, why_bytes, "%s: %s", opened.path, strerror(-r));
		close(opened.lock_fd);
		return r;
	}
	*ret = opened;
	return 0;
}

void weir_api_socket_close(struct weir_api_socket *opened) {
	if (opened->fd >= 0) {
		close(opened->fd);
	}
	unlink(opened->path);
	unlink(opened->pid_path);
	close(opened->lock_fd);
}
