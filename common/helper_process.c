// SPDX-License-Identifier: BSD-3-Clause
#include "helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Closes all descriptors except standard input, output and error, and fd, the connection to the
// parent. This child has inherited a copy of the parent's connection to each helper that was
// started earlier. While a copy is open, that helper cannot detect that the parent has closed the
// connection.
//
// Errors are ignored: close_range(2) may not exist (before Linux 5.9), or a seccomp filter may deny
// it. After an error, an earlier helper can detect the exit of the parent only when this helper has
// exited.
static void close_others(int fd) {
	const unsigned int first = STDERR_FILENO + 1, own = (unsigned int)fd;

	if (own > first) {
		(void)close_range(first, own - 1, 0);
	}
	(void)close_range(own < first ? first : own + 1, UINT_MAX, 0);
}

static void be_child(const char *name, weir_helper_body body, const void *context, int fd) {
	sigset_t none;

	prctl(PR_SET_NAME, name);
	// The parent may have inherited a mask that blocks signals. With SIGCHLD blocked, the child
	// could not detect the exit of a program.
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGTERM, SIG_IGN);
	signal(SIGINT, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	close_others(fd);
	body(fd, context);
	_exit(0);
}

int weir_helper_start(const char *name, weir_helper_body body, const void *context, int *ret) {
	int fds[2], r = 0;
	pid_t child;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds)) {
		return -errno;
	}
	child = fork();
	if (child == 0) {
		close(fds[0]);
		be_child(name, body, context, fds[1]);
	}
	if (child < 0 || fcntl(fds[0], F_SETFL, O_NONBLOCK)) {
		r = -errno;
		close(fds[0]);
	}
	close(fds[1]);
	if (r == 0) {
		*ret = fds[0];
	}
	return r;
}
