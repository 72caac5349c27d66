// SPDX-License-Identifier: BSD-3-Clause
//
// One request per connection: one line of JSON, answered by one line of JSON.
#include <arpa/inet.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "run_dir.h"
#include "service.h"
#include "status.h"

#define REQUEST_BYTES 512
#define INTERVAL_MAX_MS (24 * 3600 * 1000LL)

struct weir_service_client {
	struct weir_service *service;
	struct weir_service_client **place; // position in the service's list
	int fd;
	uv_poll_t poll;
	char request[REQUEST_BYTES];
	size_t bytes;
};

// --- requests -----------------------------------------------------------------------------

static json_t *do_lame_duck(struct weir_service *service, const json_t *request) {
	json_int_t interval_ms = json_integer_value(json_object_get(request, "interval_ms"));

	if (interval_ms < 0 || interval_ms > INTERVAL_MAX_MS) {
		return json_pack("{s:s}", "error", "interval_ms is out of range");
	}
	if (service->stopping) {
		return json_pack("{s:s}", "error", "the agent is stopping and already draining");
	}
	weir_service_lame_duck(service, (uint64_t)interval_ms, "weir-agent lame-duck");
	return weir_status_make(service);
}

static json_t *do_ready(struct weir_service *service) {
	if (service->stopping) {
		return json_pack("{s:s}", "error", "the agent is stopping");
	}
	weir_service_ready(service, "weir-agent ready");
	return weir_status_make(service);
}

static json_t *do_request(struct weir_service *service, const json_t *request) {
	const char *command = json_string_value(json_object_get(request, "command"));

	if (command != NULL && strcmp(command, "status") == 0) {
		return weir_status_make(service);
	}
	if (command != NULL && strcmp(command, "lame-duck") == 0) {
		return do_lame_duck(service, request);
	}
	if (command != NULL && strcmp(command, "ready") == 0) {
		return do_ready(service);
	}
	return json_pack("{s:s}", "error", "unknown command");
}

static void answer(struct weir_service_client *client) {
	json_t *request = json_loadb(client->request, client->bytes, 0, NULL), *reply;
	char *text;

	reply = request != NULL ? do_request(client->service, request)
				: json_pack("{s:s}", "error", "the request is not JSON");
	json_decref(request);
	text = reply != NULL ? json_dumps(reply, JSON_COMPACT) : NULL;
	json_decref(reply);
	if (text != NULL) {
		// The answer fits into the socket's buffer; a client that does not read gets a
		// part.
		(void)!send(client->fd, text, strlen(text), MSG_NOSIGNAL);
		(void)!send(client->fd, "\n", 1, MSG_NOSIGNAL);
	}
	free(text);
}

// --- connections --------------------------------------------------------------------------

static void free_client(uv_handle_t *handle) {
	struct weir_service_client *client = handle->data;

	close(client->fd);
	free(client);
}

static void close_client(struct weir_service_client *client) {
	*client->place = NULL;
	uv_close((uv_handle_t *)&client->poll, free_client);
}

// An unused client slot, or NULL.
static struct weir_service_client **find_place(struct weir_service_local *local) {
	for (int i = 0; i < WEIR_SERVICE_CLIENTS_MAX; i++) {
		if (local->client[i] == NULL) {
			return &local->client[i];
		}
	}
	return NULL;
}

static void on_request(uv_poll_t *poll, int status, int events) {
	struct weir_service_client *client = poll->data;
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
			answer(client);
		} else if (client->bytes < sizeof(client->request)) {
			return;
		}
	}
	close_client(client);
}

static void on_connection(uv_poll_t *poll, int status, int events) {
	struct weir_service *service = poll->data;
	int fd = accept4(service->local.fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	struct weir_service_client **place = find_place(&service->local), *client;

	(void)status;
	(void)events;
	if (fd < 0) {
		return;
	}
	client = place != NULL ? calloc(1, sizeof(*client)) : NULL;
	if (client == NULL || uv_poll_init(&service->loop, &client->poll, fd)) {
		free(client);
		close(fd);
		return;
	}
	client->service = service;
	client->fd = fd;
	client->poll.data = client;
	client->place = place;
	*place = client;
	uv_poll_start(&client->poll, UV_READABLE, on_request);
}

// --- life ---------------------------------------------------------------------------------

// Whether an agent listens there, including one too busy to accept.
static bool is_answered(const struct sockaddr_un *address) {
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	bool answered;

	if (fd < 0) {
		return false;
	}
	answered = connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0 ||
		   errno == EAGAIN;
	close(fd);
	return answered;
}

int weir_service_local_open(struct weir_service *service, char *why, size_t why_bytes) {
	const char *run_dir = service->options->run_dir;
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd, r;

	if (snprintf(address.sun_path, sizeof(address.sun_path), "%s/%s", run_dir,
		    WEIR_SERVICE_SOCKET) >= (int)sizeof(address.sun_path)) {
		snprintf(why, why_bytes, "--run-dir: the name is too long");
		return -ENAMETOOLONG;
	}
	r = weir_run_dir_make(run_dir, (uid_t)-1, (gid_t)-1, service->log, why, why_bytes);
	if (r < 0) {
		return r;
	}
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0) {
		return -errno;
	}
	if (is_answered(&address)) { // it has another UDP port
		snprintf(why, why_bytes,
			"another weir-agent uses %s; give each agent its own --run-dir", run_dir);
		close(fd);
		return -EADDRINUSE;
	}
	(void)unlink(address.sun_path); // of an agent that died
	// bind() creates the socket with this mode, so no other user can ever connect.
	if (fchmod(fd, 0600) || bind(fd, (const struct sockaddr *)&address, sizeof(address)) ||
		listen(fd, WEIR_SERVICE_CLIENTS_MAX)) {
		r = -errno;
		snprintf(why, why_bytes, "cannot listen at %s: %s", address.sun_path, strerror(-r));
		close(fd);
		return r;
	}
	service->local.fd = fd;
	return 0;
}

int weir_service_local_start(struct weir_service *service) {
	int r = uv_poll_init(&service->loop, &service->local.poll, service->local.fd);

	if (r == 0) {
		service->local.poll.data = service;
		service->local.poll_open = true;
		uv_poll_start(&service->local.poll, UV_READABLE, on_connection);
	}
	return r;
}

void weir_service_local_stop(struct weir_service *service) {
	for (int i = 0; i < WEIR_SERVICE_CLIENTS_MAX; i++) {
		if (service->local.client[i] != NULL) {
			close_client(service->local.client[i]);
		}
	}
	if (service->local.poll_open) {
		uv_close((uv_handle_t *)&service->local.poll, NULL);
		service->local.poll_open = false;
	}
}
