// SPDX-License-Identifier: BSD-3-Clause
#include "helper_process.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

// Close all descriptors but the standard ones and the connection. Otherwise a helper that was
// started earlier would not see that the parent has closed its connection, because this child still
// has a copy of it.
// Errors are ignored: without close_range(2), before Linux 5.9 or if a filter of system calls
// denies it, the earlier helpers end after this one, and all of them still end after their parent.
static void close_others(int fd) {
	const unsigned int first = STDERR_FILENO + 1, own = (unsigned int)fd;

	if (own > first) {
		(void)close_range(first, own - 1, 0);
	}
	(void)close_range(own < first ? first : own + 1, UINT_MAX, 0);
}

static void be_child(const char *name, weir_helper_body body, const void *context, int fd) {
	prctl(PR_SET_NAME, name);
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
