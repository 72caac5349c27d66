// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api_private.h"

#define ACCEPTS_MAX 16 // maximum number of connections accepted in one iteration of the loop
// time for which accepting pauses when memory or descriptors are exhausted
#define ACCEPT_AGAIN_MS 100

static bool is_evictable(const struct weir_api_client *client, bool may_change) {
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return false;
	}
	if (may_change && !client->peer.may_change) {
		return true;
	}
	return !client->waiting && client->call == NULL && client->out == NULL &&
	       uv_now(client->api->loop) - client->request_ms >= WEIR_API_IDLE_MS;
}

// Closes the connection that has been idle the longest, to make room for a new client (A3).
// may_change: the new client may make changes. If so, connections of read-only clients can be
// closed even with a pending request (A6). Returns false if no connection was closed.
static bool evict(struct weir_api *api, bool may_change) {
	struct weir_api_client *oldest = NULL;

	for (struct weir_api_client *client = api->clients; client != NULL; client = client->next) {
		if (is_evictable(client, may_change) &&
			(oldest == NULL || client->request_ms <= oldest->request_ms)) {
			oldest = client;
		}
	}
	if (oldest != NULL) {
		weir_api_cut_off(oldest);
	}
	return oldest != NULL;
}

// Adds an accepted connection. If there is no room for it, the client gets an error, and the
// connection is closed. Takes ownership of fd and client.
static void connected(struct weir_api *api, int fd, struct weir_api_client *client) {
	bool full;

	weir_api_peer_read(fd, api->admin_group, &client->peer);
	full = api->count >= WEIR_API_CLIENTS && !evict(api, client->peer.may_change);
	client->api = api;
	client->connection = ++api->connections;
	client->handles = 2;
	client->pipe.data = client;
	client->deadline.data = client;
	uv_pipe_init(api->loop, &client->pipe, 0);
	uv_timer_init(api->loop, &client->deadline);
	client->next = api->clients;
	client->link = &api->clients;
	if (client->next != NULL) {
		client->next->link = &client->next;
	}
	api->clients = client;
	api->count++;
	client->request_ms = uv_now(api->loop);
	if (uv_pipe_open(&client->pipe, fd) < 0) {
		close(fd);
		weir_api_cut_off(client);
		return;
	}
	if (full) {
		client->ended = true; // the connection is closed after this answer
		weir_api_write_answer(client, weir_api_error_answer(WEIR_API_REFUSED,
						      (char[]){"too many open connections: close a "
							       "connection, or try again later"}));
		return;
	}
	weir_api_next_request(client);
}

static void on_connection(uv_poll_t *listener, int status, int events);

static void accept_again(uv_timer_t *timer) {
	struct weir_api *api = timer->data;

	(void)uv_poll_start(&api->listener, UV_READABLE, on_connection);
}

// Pauses accepting, because memory or descriptors are exhausted. Without the pause, the loop would
// retry continuously.
static void accept_later(struct weir_api *api) {
	uv_poll_stop(&api->listener);
	uv_timer_start(&api->again, accept_again, ACCEPT_AGAIN_MS, 0);
}

// Accepts a few connections. uv_listen is not used, because it accepts the whole backlog, so a fast
// client could block the loop (A6).
static void on_connection(uv_poll_t *listener, int status, int events) {
	struct weir_api *api = listener->data;

	(void)status; // accept returns the error
	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct weir_api_client *client = calloc(1, sizeof(*client));
		int fd = -1;

		if (client != NULL) {
			fd = accept4(api->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		}
		if (fd >= 0) {
			connected(api, fd, client);
			continue;
		}
		if (client == NULL ||
			(errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) {
			accept_later(api);
		}
		free(client);
		return;
	}
}

int weir_api_create(
	uv_loop_t *loop, int fd, weir_api_handler handler, void *context, struct weir_api **ret) {
	struct weir_api *api = calloc(1, sizeof(*api));
	int r;

	if (api == NULL) {
		close(fd);
		return -ENOMEM;
	}
	api->loop = loop;
	api->handler = handler;
	api->context = context;
	api->fd = fd;
	api->admin_group = (gid_t)-1;
	api->user_bytes = WEIR_API_USER_BYTES;
	// Listen before a libuv handle exists, so that there is no handle to close if listening
	// fails. Only the running loop could release a handle.
	if (listen(fd, WEIR_API_CLIENTS) < 0) {
		r = -errno;
		close(fd);
		free(api);
		return r;
	}
	r = uv_poll_init(loop, &api->listener, fd); // makes the socket non-blocking
	if (r < 0) {
		close(fd);
		free(api);
		return r;
	}
	uv_idle_init(loop, &api->turn);
	uv_timer_init(loop, &api->again);
	api->listener.data = api->again.data = api->turn.data = api;
	api->handles = 3;
	r = uv_poll_start(&api->listener, UV_READABLE, on_connection);
	if (r < 0) {
		weir_api_close(api, NULL);
		return r;
	}
	*ret = api;
	return 0;
}

static void handle_closed(uv_handle_t *handle) {
	struct weir_api *api = handle->data;

	if (--api->handles == 0) {
		close(api->fd);
		weir_api_finish_close(api);
	}
}

void weir_api_close(struct weir_api *api, void (*closed)(void *context)) {
	api->closing = true;
	api->closed = closed;
	for (struct weir_api_client *client = api->clients; client != NULL; client = client->next) {
		weir_api_cut_off(client);
	}
	weir_api_abandon_lists(api);
	uv_close((uv_handle_t *)&api->turn, handle_closed);
	uv_close((uv_handle_t *)&api->listener, handle_closed);
	uv_close((uv_handle_t *)&api->again, handle_closed);
}

unsigned int weir_api_clients(const struct weir_api *api) {
	return api->count;
}

void weir_api_set_admin_group(struct weir_api *api, gid_t gid) {
	api->admin_group = gid;
}

void weir_api_set_user_bytes(struct weir_api *api, size_t bytes) {
	api->user_bytes = bytes;
}
