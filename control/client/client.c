// SPDX-License-Identifier: BSD-3-Clause
#include "client.h"

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "clocks.h"
#include "daemon_options.h"
#include "terminal.h"

// Room for the longest run directory that needs no escapes: a path in a socket address has at most
// 108 bytes. A longer text is truncated.
#define SHOWN_BYTES 128

struct weir_client {
	int fd;
	int timeout_ms;
	int failed; // error that made the connection unusable; 0 = none
	char *answer; // received bytes that are not consumed yet
	size_t bytes, room;
};

// Wait until the socket is ready or the deadline has passed. Returns 0, -ETIMEDOUT or negative
// errno.
static int wait_for(int fd, short events, uint64_t deadline_ms) {
	for (;;) {
		struct pollfd ready = {.fd = fd, .events = events};
		int64_t left = deadline_ms - weir_monotonic_ms();
		int n;

		if (left <= 0) {
			return -ETIMEDOUT;
		}
		n = poll(&ready, 1, left > INT32_MAX ? INT32_MAX : (int)left);
		if (n > 0) {
			return 0;
		}
		if (n < 0 && errno != EINTR) {
			return -errno;
		}
	}
}

// Connect, and try again while the backlog of the socket is full. For a unix socket, connect(2)
// then fails with EAGAIN, and poll(2) cannot wait until the backlog has room.
static int connect_until(int fd, const struct sockaddr_un *address, uint64_t deadline_ms) {
	while (connect(fd, (const struct sockaddr *)address, sizeof(*address)) != 0) {
		if (errno != EAGAIN && errno != EINTR) {
			return -errno;
		}
		if (weir_monotonic_ms() >= deadline_ms) {
			return -ETIMEDOUT;
		}
		poll(NULL, 0, 10);
	}
	return 0;
}

static void explain_connect(
	int rc, const char *folder, int timeout_ms, char *why, size_t why_bytes) {
	char run_dir[SHOWN_BYTES];

	weir_terminal_text(folder, run_dir, sizeof(run_dir));
	switch (rc) {
	case -ENOENT:
		snprintf(why, why_bytes,
			"weir-control is not running (no %s/%s): start it with "
			"\"weir-control --config FILE --data-path-checks --run-dir %s\"",
			run_dir, WEIR_CONTROL_SOCKET, run_dir);
		break;
	case -ECONNREFUSED:
		snprintf(why, why_bytes,
			"weir-control is not running (%s/%s refuses connections): start it with "
			"\"weir-control --config FILE --data-path-checks --run-dir %s\"",
			run_dir, WEIR_CONTROL_SOCKET, run_dir);
		break;
	case -EACCES:
	case -EPERM:
		snprintf(why, why_bytes,
			"no permission to use %s/%s: run as root or as a member of the group of "
			"%s",
			run_dir, WEIR_CONTROL_SOCKET, run_dir);
		break;
	case -ETIMEDOUT:
		snprintf(why, why_bytes,
			"weir-control did not accept the connection within %d ms: it is hung or "
			"overloaded",
			timeout_ms);
		break;
	default:
		snprintf(why, why_bytes, "cannot connect to %s/%s: %s", run_dir,
			WEIR_CONTROL_SOCKET, strerror(-rc));
	}
}

static int open_socket(const char *run_dir, int timeout_ms) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", run_dir,
		    WEIR_CONTROL_SOCKET) >= sizeof(address.sun_path)) {
		return -ENAMETOOLONG;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	r = connect_until(fd, &address, weir_monotonic_ms() + timeout_ms);
	if (r) {
		close(fd);
		return r;
	}
	return fd;
}

int weir_client_connect(const char *run_dir, int timeout_ms, struct weir_client **ret, char *why,
	size_t why_bytes) {
	struct weir_client *client;
	int fd = open_socket(run_dir, timeout_ms);

	if (fd < 0) {
		explain_connect(fd, run_dir, timeout_ms, why, why_bytes);
		return fd;
	}
	client = calloc(1, sizeof(*client));
	if (client == NULL) {
		close(fd);
		snprintf(why, why_bytes, "out of memory");
		return -ENOMEM;
	}
	client->fd = fd;
	client->timeout_ms = timeout_ms;
	*ret = client;
	return 0;
}

void weir_client_free(struct weir_client *client) {
	if (client == NULL) {
		return;
	}
	close(client->fd);
	free(client->answer);
	free(client);
}

void weir_client_set_timeout(struct weir_client *client, int timeout_ms) {
	client->timeout_ms = timeout_ms;
}

static int send_all(int fd, const char *data, size_t bytes, uint64_t deadline_ms) {
	while (bytes > 0) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		if (n >= 0) {
			data += n;
			bytes -= (size_t)n;
		} else if (errno == EAGAIN) {
			int r = wait_for(fd, POLLOUT, deadline_ms);

			if (r) {
				return r;
			}
		} else if (errno == EPIPE) {
			return -ECONNRESET;
		} else if (errno != EINTR) {
			return -errno;
		}
	}
	return 0;
}

static int send_request(struct weir_client *client, const json_t *request, uint64_t deadline_ms) {
	char *text = json_dumps(request, JSON_COMPACT | JSON_ENSURE_ASCII);
	size_t bytes = 0;
	int r;

	if (text == NULL) {
		return -ENOMEM;
	}
	bytes = strlen(text);
	text[bytes] = '\n'; // replaces the NUL: weir-control reads lines
	r = bytes < WEIR_CLIENT_REQUEST_MAX ? send_all(client->fd, text, bytes + 1, deadline_ms)
					    : -EMSGSIZE;
	free(text);
	return r;
}

static int grow(struct weir_client *client) {
	size_t room = client->room ? client->room * 2 : 16384;
	char *grown;

	if (client->bytes < client->room) {
		return 0;
	}
	if (room > WEIR_CLIENT_ANSWER_MAX) {
		return -EFBIG;
	}
	grown = realloc(client->answer, room);
	if (grown == NULL) {
		return -ENOMEM;
	}
	client->answer = grown;
	client->room = room;
	return 0;
}

// Receive up to the end of a line. *ret_bytes: length of the line, without the line end. Returns 0,
// -ETIMEDOUT, -ECONNRESET (end of file), -EFBIG, or another negative errno.
static int receive_line(struct weir_client *client, uint64_t deadline_ms, size_t *ret_bytes) {
	size_t searched = 0;

	for (;;) {
		char *end = client->bytes > searched ? memchr(client->answer + searched, '\n',
							       client->bytes - searched)
						     : NULL;
		ssize_t n;
		int r;

		if (end != NULL) {
			*ret_bytes = (size_t)(end - client->answer);
			return 0;
		}
		searched = client->bytes;
		r = grow(client);
		if (r) {
			return r;
		}
		n = recv(client->fd, client->answer + client->bytes, client->room - client->bytes,
			0);
		if (n > 0) {
			client->bytes += (size_t)n;
		} else if (n == 0) {
			return -ECONNRESET;
		} else if (errno == EAGAIN) {
			r = wait_for(client->fd, POLLIN, deadline_ms);
			if (r) {
				return r;
			}
		} else if (errno != EINTR) {
			return -errno;
		}
	}
}

static void explain_call(const struct weir_client *client, int rc, char *why, size_t why_bytes) {
	switch (rc) {
	case -ETIMEDOUT:
		snprintf(why, why_bytes,
			"no reply from weir-control within %d ms: it is hung or overloaded; use "
			"--timeout MS to wait longer",
			client->timeout_ms);
		break;
	case -ECONNRESET:
		snprintf(why, why_bytes,
			"weir-control closed the connection without a reply; it may have exited");
		break;
	case -EPROTO:
		snprintf(why, why_bytes,
			"invalid reply from weir-control; check that both programs have the same "
			"version");
		break;
	case -EMSGSIZE:
		snprintf(why, why_bytes, "the request is longer than %u KiB: use a shorter name",
			WEIR_CLIENT_REQUEST_MAX >> 10);
		break;
	case -EFBIG:
		snprintf(why, why_bytes,
			"the reply is longer than %u MiB: request less, such as one service",
			WEIR_CLIENT_ANSWER_MAX >> 20);
		break;
	default:
		snprintf(why, why_bytes, "connection to weir-control failed: %s", strerror(-rc));
	}
}

static int receive_answer(struct weir_client *client, uint64_t deadline_ms, json_t **ret) {
	json_t *answer;
	size_t bytes = 0;
	int r = receive_line(client, deadline_ms, &bytes);

	if (r) {
		return r;
	}
	answer = json_loadb(client->answer, bytes, JSON_REJECT_DUPLICATES, NULL);
	client->bytes -= bytes + 1;
	memmove(client->answer, client->answer + bytes + 1, client->bytes);
	if (!json_is_object(answer) || !json_is_boolean(json_object_get(answer, "ok"))) {
		json_decref(answer);
		return -EPROTO;
	}
	*ret = answer;
	return 0;
}

int weir_client_call(struct weir_client *client, const json_t *request, json_t **ret, char *why,
	size_t why_bytes) {
	uint64_t deadline_ms = weir_monotonic_ms() + client->timeout_ms;
	int r = client->failed;

	if (r == 0) {
		r = send_request(client, request, deadline_ms);
		// weir-control may have answered "too many open connections" and closed the
		// connection without reading the request.
		if (r == 0 || r == -ECONNRESET) {
			r = receive_answer(client, deadline_ms, ret);
		}
	}
	if (r) {
		explain_call(client, r, why, why_bytes);
		client->failed = r == -EMSGSIZE ? 0 : r;
	}
	return r;
}
