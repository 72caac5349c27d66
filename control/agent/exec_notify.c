// SPDX-License-Identifier: BSD-3-Clause
#include "exec_notify.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <systemd/sd-daemon.h>
#include <unistd.h>

#include "foreign_descriptors.h"
#include "word_line.h"

int weir_exec_notify_open(struct weir_exec_notify *ret) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	socklen_t bytes = sizeof(address.sun_family); // the kernel chooses an abstract name
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), r, on = 1;

	ret->fd = -1;
	if (fd < 0) {
		return -errno;
	}
	if (setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
		bind(fd, (const struct sockaddr *)&address, bytes)) {
		r = -errno;
		close(fd);
		return r;
	}
	bytes = sizeof(address);
	if (getsockname(fd, (struct sockaddr *)&address, &bytes) ||
		bytes <= offsetof(struct sockaddr_un, sun_path) + 1) {
		close(fd);
		return -EADDRNOTAVAIL;
	}
	ret->fd = fd;
	snprintf(ret->name, sizeof(ret->name), "@%.*s",
		(int)(bytes - offsetof(struct sockaddr_un, sun_path) - 1), address.sun_path + 1);
	return 0;
}

void weir_exec_notify_close(struct weir_exec_notify *notify) {
	if (notify->fd >= 0) {
		weir_foreign_close(notify->fd);
	}
	notify->fd = -1;
}

static bool is_kept(const char *line, size_t bytes) {
	static const char *const dropped[] = {"MAINPID=", "MAINPIDFDID=", "MAINPIDFD=", "FDSTORE=",
		"FDSTOREREMOVE=", "FDNAME=", "FDPOLL=", "BARRIER=", "NOTIFYACCESS="};

	for (size_t i = 0; i < sizeof(dropped) / sizeof(dropped[0]); i++) {
		if (strncmp(line, dropped[i], strlen(dropped[i])) == 0) {
			return false;
		}
	}
	return bytes > 0;
}

const char *weir_exec_notify_filter(const char *message, char *to) {
	size_t used = 0;

	while (*message != '\0') {
		size_t bytes = strcspn(message, "\n");

		if (is_kept(message, bytes)) {
			if (used > 0) {
				to[used++] = '\n';
			}
			memcpy(to + used, message, bytes);
			used += bytes;
		}
		message += bytes + (message[bytes] == '\n');
	}
	to[used] = '\0';
	return to;
}

// Receive a message. If the sender has attached descriptors to the message, the kernel closes them,
// because the call has no buffer for descriptors.
static ssize_t receive(int fd, char *text, struct ucred *ret_sender) {
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(struct ucred))];
	} control;
	struct iovec part = {.iov_base = text, .iov_len = WEIR_EXEC_MESSAGE_BYTES - 1};
	struct msghdr header = {.msg_iov = &part,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t n = weir_foreign_recvmsg(fd, &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	const struct cmsghdr *first = n >= 0 ? CMSG_FIRSTHDR(&header) : NULL;

	*ret_sender = (struct ucred){.pid = -1, .uid = (uid_t)-1};
	if (first != NULL && first->cmsg_level == SOL_SOCKET &&
		first->cmsg_type == SCM_CREDENTIALS) {
		memcpy(ret_sender, CMSG_DATA(first), sizeof(*ret_sender));
	}
	if (n >= 0) {
		text[n] = '\0';
	}
	return n;
}

// Returns the last state in a message, NONE if there is none. Skips lines that it cannot read, as
// systemd does.
static enum weir_health_word find_word(const char *message) {
	enum weir_health_word found = WEIR_HEALTH_WORD_NONE, word;

	while (*message != '\0') {
		size_t bytes = strcspn(message, "\n");

		if (weir_word_lines_read(message, bytes, &word) == 0 &&
			word != WEIR_HEALTH_WORD_NONE) {
			found = word;
		}
		message += bytes + (message[bytes] == '\n');
	}
	return found;
}

enum weir_health_word weir_exec_notify_take(struct weir_exec_notify *notify, pid_t server) {
	char text[WEIR_EXEC_MESSAGE_BYTES], kept[WEIR_EXEC_MESSAGE_BYTES];
	struct ucred sender;
	ssize_t n = receive(notify->fd, text, &sender);

	if (n <= 0 || (sender.pid != server && sender.uid != 0 && sender.uid != geteuid())) {
		return WEIR_HEALTH_WORD_NONE;
	}
	if (weir_exec_notify_filter(text, kept)[0] != '\0') {
		sd_notify(0, kept);
	}
	return find_word(text);
}
