// SPDX-License-Identifier: BSD-3-Clause
#include "word_client.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clocks.h"
#include "words.h"

// Find the name of the only socket that this user may connect to.
static int find_only(const char *folder, char ret_name[static WEIR_SERVICE_NAME_BYTES]) {
	const size_t end = strlen(WEIR_WORDS_SUFFIX);
	DIR *dir = opendir(folder);
	const struct dirent *entry;
	uint32_t found = 0;

	if (dir == NULL) {
		return -errno;
	}
	while ((entry = readdir(dir)) != NULL) {
		size_t bytes = strlen(entry->d_name);

		if (bytes > end && bytes - end < WEIR_SERVICE_NAME_BYTES &&
			strcmp(entry->d_name + bytes - end, WEIR_WORDS_SUFFIX) == 0 &&
			faccessat(dirfd(dir), entry->d_name, W_OK, AT_EACCESS) == 0) {
			memcpy(ret_name, entry->d_name, bytes - end);
			ret_name[bytes - end] = '\0';
			found++;
		}
	}
	closedir(dir);
	return found == 1 ? 0 : found == 0 ? -ENOENT : -E2BIG;
}

int weir_word_path(
	const char *run_dir, const char *service, char ret[static WEIR_WORD_PATH_BYTES]) {
	char folder[WEIR_WORD_PATH_BYTES], only[WEIR_SERVICE_NAME_BYTES];
	int n = snprintf(folder, sizeof(folder), "%s/" WEIR_WORDS_DIR, run_dir), r;

	if (n >= (int)sizeof(folder)) {
		return -ENAMETOOLONG;
	}
	if (service == NULL) {
		r = find_only(folder, only);
		if (r) {
			return r;
		}
		service = only;
	}
	n = snprintf(ret, WEIR_WORD_PATH_BYTES, "%s/%s" WEIR_WORDS_SUFFIX, folder, service);
	return n < WEIR_WORD_PATH_BYTES ? 0 : -ENAMETOOLONG;
}

// Connect to the socket and send the request. Returns the descriptor, from which the reply can be
// read, or negative errno.
static int send_request(const char *path, const char *request) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		send(fd, request, strlen(request), MSG_NOSIGNAL) < 0) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int weir_word_exchange(const char *path, const char *request, int timeout_ms,
	char ret[static WEIR_WORD_REPLY_BYTES]) {
	const int64_t end_ms = weir_monotonic_ms() + timeout_ms;
	int fd = send_request(path, request);
	size_t bytes = 0;

	if (fd < 0) {
		return fd;
	}
	while (bytes == 0 || ret[bytes - 1] != '\n') {
		struct pollfd reply = {.fd = fd, .events = POLLIN};
		int64_t left_ms = end_ms - weir_monotonic_ms();
		ssize_t n;

		if (poll(&reply, 1, left_ms > 0 ? (int)left_ms : 0) <= 0) {
			close(fd);
			return -ETIMEDOUT;
		}
		n = read(fd, ret + bytes, WEIR_WORD_REPLY_BYTES - 1 - bytes);
		if (n <= 0) {
			close(fd);
			return -EPROTO;
		}
		bytes += (size_t)n;
	}
	close(fd);
	ret[bytes] = '\0';
	return 0;
}

const char *weir_word_explain(int error, const char *run_dir, const char *service, char *why) {
	const char *name = service != NULL ? service : "NAME";

	switch (error) {
	case -EACCES:
		snprintf(why, WEIR_WORD_WHY_BYTES,
			"user %u may not announce for service %s; start weir-agent run with "
			"--allow-user %u=%s",
			(unsigned int)geteuid(), name, (unsigned int)geteuid(), name);
		break;
	case -ENOENT:
		snprintf(why, WEIR_WORD_WHY_BYTES,
			"no socket of %s%s in %s/" WEIR_WORDS_DIR "; start weir-agent run with "
			"--service %s=PORT and --allow-user",
			service != NULL ? "service " : "a service that this user may announce for",
			service != NULL ? service : "", run_dir, name);
		break;
	case -E2BIG:
		snprintf(why, WEIR_WORD_WHY_BYTES,
			"this user may announce for several services; use --service NAME");
		break;
	case -ECONNREFUSED:
		snprintf(why, WEIR_WORD_WHY_BYTES, "weir-agent run has exited; start it");
		break;
	case -EAGAIN:
	case -ETIMEDOUT:
		snprintf(why, WEIR_WORD_WHY_BYTES,
			"no response from weir-agent run in %s: the process hangs or is stopped, "
			"or other clients send too many requests",
			run_dir);
		break;
	default:
		snprintf(why, WEIR_WORD_WHY_BYTES, "cannot reach weir-agent run in %s: %s", run_dir,
			strerror(-error));
		break;
	}
	return why;
}
