// SPDX-License-Identifier: BSD-3-Clause
//
// weir_word.h: functions with which a server announces to Weir's balancers that it accepts no new
// flows. They work in a signal handler and without root privileges:
//
//	static struct weir_word word;
//
//	static void on_sigterm(int number) {
//		weir_word_lame_duck(&word);
//		...
//	}
//
//	weir_word_prepare(&word, "web"); // at the start
//
// "web" is a service of weir-agent run --service web=80 --allow-user USER=web, where USER is the
// user of the server. After the announcement, the server should keep running for a while, and then
// stop.
//
// Header only; C99 or C++ on Linux. Each announcement makes a new connection, so the agent may
// restart at any time. The functions never wait, raise no SIGPIPE and leave errno unchanged. A
// server that changes its root directory (chroot) needs the socket below the new root directory.
//
// Threads: any. All functions except weir_word_prepare and weir_word_prepare_in are
// async-signal-safe: they call socket(), connect(), send() and close().
#pragma once

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#ifndef WEIR_WORD_DIR
#define WEIR_WORD_DIR "/run/weir-agent/words"
#endif

struct weir_word {
	struct sockaddr_un address;
};

// Set the address of the service's socket. dir: directory of the sockets; WEIR_WORD_DIR unless the
// agent has another --run-dir. Returns 0 or -ENAMETOOLONG.
static inline int weir_word_prepare_in(
	struct weir_word *word, const char *dir, const char *service) {
	const size_t dir_bytes = strlen(dir), bytes = strlen(service);
	char *path = word->address.sun_path;

	if (dir_bytes + bytes + sizeof("/.sock") > sizeof(word->address.sun_path)) {
		return -ENAMETOOLONG;
	}
	memset(&word->address, 0, sizeof(word->address));
	word->address.sun_family = AF_UNIX;
	memcpy(path, dir, dir_bytes);
	path[dir_bytes] = '/';
	memcpy(path + dir_bytes + 1, service, bytes);
	memcpy(path + dir_bytes + 1 + bytes, ".sock", sizeof(".sock"));
	return 0;
}

static inline int weir_word_prepare(struct weir_word *word, const char *service) {
	return weir_word_prepare_in(word, WEIR_WORD_DIR, service);
}

// Send a line. Returns 0 or negative errno, such as -ENOENT or -ECONNREFUSED (no agent with this
// service), -EACCES (the agent does not permit this user), -EAGAIN (too many simultaneous requests
// for this service).
static inline int weir_word_send(const struct weir_word *word, const char *line, size_t bytes) {
	const int before = errno;
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), r = 0;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&word->address, sizeof(word->address)) ||
		send(fd, line, bytes, MSG_NOSIGNAL) != (ssize_t)bytes) {
		r = -errno;
	}
	if (fd >= 0) {
		close(fd);
	}
	errno = before;
	return r;
}

// Announces that the service accepts no new flows. Existing flows continue.
static inline int weir_word_lame_duck(const struct weir_word *word) {
	return weir_word_send(word, "lame-duck\n", sizeof("lame-duck\n") - 1);
}

// Announces that the service accepts new flows again.
static inline int weir_word_ready(const struct weir_word *word) {
	return weir_word_send(word, "ready\n", sizeof("ready\n") - 1);
}

// Announces that the service accepts no flows until weir_word_ready is called.
static inline int weir_word_starting(const struct weir_word *word) {
	return weir_word_send(word, "starting\n", sizeof("starting\n") - 1);
}

// Announces that the service is down, like a port without a listening server.
static inline int weir_word_down(const struct weir_word *word) {
	return weir_word_send(word, "down\n", sizeof("down\n") - 1);
}
