// SPDX-License-Identifier: BSD-3-Clause
//
// weir_word.h: lets a server announce to Weir's balancers that it gets no new flows, from its
// signal handler and without root:
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
// user that the server runs as. After it the server should go on for a while, and then stop.
//
// Header only; C99 or C++ on Linux. Each function connects anew, so that a restart of the agent
// does no harm, never waits, raises no SIGPIPE and leaves errno unchanged. A server that changes
// its root directory (chroot) needs the socket below the new one.
//
// Threads: any. weir_word_prepare aside, all are async-signal-safe: they call socket(), connect(),
// send() and close().
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

// dir: of the sockets; WEIR_WORD_DIR unless the agent has another --run-dir. Returns 0 or
// -ENAMETOOLONG.
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

// Send a line. Returns 0, or a negative errno, among them -ENOENT and -ECONNREFUSED: no such agent,
// -EACCES: the agent does not allow it, -EAGAIN: too many requests of this service at once.
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

// No new flows; existing ones go on.
static inline int weir_word_lame_duck(const struct weir_word *word) {
	return weir_word_send(word, "lame-duck\n", sizeof("lame-duck\n") - 1);
}

// New flows again.
static inline int weir_word_ready(const struct weir_word *word) {
	return weir_word_send(word, "ready\n", sizeof("ready\n") - 1);
}

// No flows yet; ends with ready.
static inline int weir_word_starting(const struct weir_word *word) {
	return weir_word_send(word, "starting\n", sizeof("starting\n") - 1);
}

// As if no server listened.
static inline int weir_word_down(const struct weir_word *word) {
	return weir_word_send(word, "down\n", sizeof("down\n") - 1);
}
