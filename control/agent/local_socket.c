// SPDX-License-Identifier: BSD-3-Clause
#include "local_socket.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "run_dir.h"

#define REQUEST_BYTES 512

struct weir_local_client {
	struct weir_local_socket *local;
	struct weir_local_client **place; // slot of this client in local->client
	int fd;
	uv_poll_t poll;
	char request[REQUEST_BYTES];
	size_t bytes;
};

static void reply_to(struct weir_local_client *client) {
	json_t *request = json_loadb(client->request, client->bytes, 0, NULL), *reply;
	char *text;

	reply = request != NULL ? client->local->answer(client->local->context, request)
				: json_pack("{s:s}", "error", "the request is not JSON");
	json_decref(request);
	text = reply != NULL ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	if (text != NULL) {
		// The socket does not block. The answer normally fits into the socket's buffer;
		// otherwise, a client that does not read loses the end of the answer.
		(void)!send(client->fd, text, strlen(text), MSG_NOSIGNAL);
		(void)!send(client->fd, "\n", 1, MSG_NOSIGNAL);
	}
	free(text);
}

static void free_client(uv_handle_t *handle) {
	struct weir_local_client *client = handle->data;

	close(client->fd);
	free(client);
}

static void close_client(struct weir_local_client *client) {
	*client->place = NULL;
	uv_close((uv_handle_t *)&client->poll, free_client);
}

// Returns whether the client still waits for the reply. A client that no longer waits has already
// reported an error to its user; its request must not be executed.
static bool waits(const struct weir_local_client *client) {
	struct pollfd gone = {.fd = client->fd};

	return poll(&gone, 1, 0) == 0; // poll() always reports POLLHUP
}

static void on_request(uv_poll_t *poll, int status, int events) {
	struct weir_local_client *client = poll->data;
	ssize_t n;

	(void)status;
	(void)events;
	n = read(client->fd, client->request + client->bytes,
		sizeof(client->request) - client->bytes);
	if (n < 0 && errno == EAGAIN) {
		return;
	}
	if (n > 0) {
		client->bytes += (size_t)n;
		if (memchr(client->request, '\n', client->bytes) != NULL) {
			if (waits(client)) {
				reply_to(client);
			}
		} else if (client->bytes < sizeof(client->request)) {
			return;
		}
	}
	close_client(client);
}

static void on_connection(uv_poll_t *poll, int status, int events) {
	struct weir_local_socket *local = poll->data;
	int fd = accept4(local->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct weir_local_client **place, *client;

	(void)status;
	(void)events;
	if (fd < 0) {
		return;
	}
	place = &local->client[local->next++ % WEIR_LOCAL_SOCKET_CLIENTS];
	if (*place != NULL) { // the oldest client, which has sent no request
		close_client(*place);
	}
	client = calloc(1, sizeof(*client));
	if (client == NULL || uv_poll_init(poll->loop, &client->poll, fd)) {
		free(client);
		close(fd);
		return;
	}
	client->local = local;
	client->fd = fd;
	client->poll.data = client;
	client->place = place;
	*place = client;
	uv_poll_start(&client->poll, UV_READABLE, on_request);
}

// --- start and stop -----------------------------------------------------------------------

// Returns whether an agent listens at the address, including an agent that is too busy to accept
// the connection. fd: an unconnected socket; if no agent listens, it stays unconnected.
static bool is_answered(int fd, const struct sockaddr_un *address) {
	return connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
	       errno == EAGAIN;
}

int weir_local_socket_open(const char *run_dir, struct weir_log *log, char *why, size_t why_bytes) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", run_dir,
		    WEIR_LOCAL_SOCKET) >= (int)sizeof(address.sun_path)) {
		snprintf(why, why_bytes, "--run-dir: the name is too long");
		return -ENAMETOOLONG;
	}
	r = weir_run_dir_make(run_dir, (uid_t)-1, (gid_t)-1, log, why, why_bytes);
	if (r < 0) {
		return r;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		r = -errno;
		snprintf(why, why_bytes, "cannot create a socket: %s", strerror(-r));
		return r;
	}
	if (is_answered(fd, &address)) { // An agent with another UDP port uses this run directory.
		snprintf(why, why_bytes,
			"another weir-agent uses %s; give each agent its own --run-dir", run_dir);
		close(fd);
		return -EADDRINUSE;
	}
	(void)unlink(address.sun_path); // remove the socket of an agent that has crashed
	// bind() creates the socket with this mode, so no other user can ever connect.
	if (fchmod(fd, 0600) || bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		listen(fd, WEIR_LOCAL_SOCKET_CLIENTS)) {
		r = -errno;
		snprintf(why, why_bytes, "cannot listen on %s: %s", address.sun_path, strerror(-r));
		close(fd);
		return r;
	}
	return fd;
}

int weir_local_socket_start(uv_loop_t *loop, int fd,
	json_t *(*answer)(void *context, const json_t *request), void *context,
	struct weir_local_socket *ret) {
	int r;

	*ret = (struct weir_local_socket){.answer = answer, .context = context, .fd = fd};
	r = uv_poll_init(loop, &ret->poll, fd);
	if (r == 0) {
		ret->poll.data = ret;
		uv_poll_start(&ret->poll, UV_READABLE, on_connection);
	}
	return r;
}

void weir_local_socket_stop(struct weir_local_socket *local) {
	for (int i = 0; i < WEIR_LOCAL_SOCKET_CLIENTS; i++) {
		if (local->client[i] != NULL) {
			close_client(local->client[i]);
		}
	}
	if (local->poll.data != NULL) {
		uv_close((uv_handle_t *)&local->poll, NULL);
	}
}
