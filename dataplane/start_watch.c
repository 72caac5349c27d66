// SPDX-License-Identifier: BSD-3-Clause
#include "start_watch.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void *watch_fd(void *argument) {
	struct weir_start_watch *watch = argument;
	struct pollfd fds[2] = {
		{.fd = watch->fd, .events = POLLIN}, {.fd = watch->end, .events = POLLIN}};

	for (;;) {
		if (poll(fds, 2, -1) < 0) {
			continue; // EINTR, for instance caused by a debugger
		}
		if (fds[1].revents != 0) {
			return NULL;
		}
		if (fds[0].revents != 0) {
			watch->on_readable(watch->context);
		}
	}
}

int weir_start_watch_begin(
	struct weir_start_watch *watch, int fd, void (*on_readable)(void *context), void *context) {
	int r;

	*watch = (struct weir_start_watch){.fd = fd,
		.end = eventfd(0, EFD_CLOEXEC),
		.on_readable = on_readable,
		.context = context};
	if (watch->end < 0) {
		return -errno;
	}
	r = -pthread_create(&watch->thread, NULL, watch_fd, watch);
	if (r < 0) {
		close(watch->end);
	}
	return r;
}

void weir_start_watch_end(struct weir_start_watch *watch) {
	(void)eventfd_write(watch->end, 1);
	pthread_join(watch->thread, NULL);
	close(watch->end);
}
