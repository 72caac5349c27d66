// SPDX-License-Identifier: BSD-3-Clause
#include "api.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "api_text.h"

#define READ_BYTES 65536
#define ERROR_BYTES 1024
#define ACCEPTS_MAX 16 // in one turn of the loop
#define ACCEPT_AGAIN_MS 100 // after there was no memory or no descriptor for a client
#define ROWS_PER_TURN 64 // of a list, a millisecond or two
#define WHY_BYTES 320

struct client {
	struct weir_api *api;
	struct client *next;
	struct client **link; // what points to this one
	uv_pipe_t pipe;
	uv_timer_t deadline; // of the answer that is being written
	unsigned int handles; // of the two above, not closed yet
	char *in; // received
	size_t in_room;
	size_t taken; // of it, handled already
	size_t in_bytes; // not handled yet, after these
	size_t searched; // of the latter, up to here there is no newline
	bool discarding; // inside an overlong line, which was answered already
	bool ended; // the client sends nothing more
	struct weir_api_call *call; // being handled, or NULL
	uv_write_t write;
	char *out; // being written, or NULL
	uint64_t asked_ms; // when the last request came
	struct weir_api_peer peer;
};

struct weir_api {
	uv_loop_t *loop;
	uv_poll_t listener;
	uv_timer_t again; // runs while connections wait to be accepted
	unsigned int handles; // of listener, timer and turn, not closed yet
	int fd; // that the listener watches
	gid_t admin_group;
	struct client *clients;
	unsigned int count;
	weir_api_handler handler;
	void *context;
	void (*closed)(void *context);
	bool closing;
	uv_idle_t turn; // active while lists are being answered
	struct weir_api_call *lists; // one slice of the first one each iteration
};

struct weir_api_call {
	struct client *client; // NULL: it has gone
	struct weir_api_peer peer;
	json_t *request;
	struct weir_api_call *next; // of the lists
	struct weir_api_list list;
	char not_published[WHY_BYTES]; // "" = all is
	bool change_unpublished;
};

static const char *const code_names[] = {
#define X(name, key) [WEIR_API_##name] = key,
	WEIR_API_CODES(X)
#undef X
};

static void next_request(struct client *client);

const char *weir_api_code_name(enum weir_api_code code) {
	return (unsigned int)code < sizeof(code_names) / sizeof(code_names[0]) ? code_names[code]
									       : "internal";
}

// --- the end of a client ------------------------------------------------------------------

static void finish_close(struct weir_api *api) {
	void (*closed)(void *context) = api->closed;
	void *context = api->context;

	if (!api->closing || api->handles > 0 || api->clients != NULL) {
		return;
	}
	free(api);
	if (closed != NULL) {
		closed(context);
	}
}

static void client_handle_closed(uv_handle_t *handle) {
	struct client *client = handle->data;
	struct weir_api *api = client->api;

	if (--client->handles > 0) {
		return;
	}
	*client->link = client->next;
	if (client->next != NULL) {
		client->next->link = client->link;
	}
	free(client->in);
	free(client->out);
	free(client);
	finish_close(api);
}

static void cut_off(struct client *client) {
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return;
	}
	if (client->call != NULL) {
		client->call->client = NULL;
		client->call = NULL;
	}
	client->api->count--;
	uv_close((uv_handle_t *)&client->pipe, client_handle_closed);
	uv_close((uv_handle_t *)&client->deadline, client_handle_closed);
}

// --- answers ------------------------------------------------------------------------------

static void answer_late(uv_timer_t *timer) {
	cut_off(timer->data);
}

static void answer_written(uv_write_t *write, int status) {
	struct client *client = write->data;

	free(client->out);
	client->out = NULL;
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return;
	}
	uv_timer_stop(&client->deadline);
	if (status < 0) {
		cut_off(client);
		return;
	}
	next_request(client);
}

// Write one reply. Takes the text.
static void write_text(struct client *client, char *text) {
	uv_buf_t buffers[2];

	if (text == NULL) { // no memory for an answer: the client must not wait for it
		cut_off(client);
		return;
	}
	client->out = text;
	client->write.data = client;
	buffers[0] = uv_buf_init(text, (unsigned int)strlen(text));
	buffers[1] = uv_buf_init((char *)"\n", 1);
	uv_timer_start(&client->deadline, answer_late, WEIR_API_ANSWER_MS, 0);
	if (uv_write(&client->write, (uv_stream_t *)&client->pipe, buffers, 2, answer_written) <
		0) {
		cut_off(client);
	}
}

// Write one reply. Takes the reference of answer.
static void write_answer(struct client *client, json_t *answer) {
	char *text = answer != NULL ? json_dumps(answer, WEIR_API_DUMP_FLAGS) : NULL;

	json_decref(answer);
	write_text(client, text);
}

static void end_call(struct weir_api_call *call, json_t *answer) {
	struct client *client = call->client;

	json_decref(call->request);
	free(call);
	if (client == NULL) {
		json_decref(answer);
		return;
	}
	client->call = NULL;
	write_answer(client, answer);
}

static json_t *error_answer(enum weir_api_code code, char *text) {
	return json_pack("{s:b, s:s, s:o}", "ok", 0, "code", weir_api_code_name(code), "error",
		weir_api_safe_string(text));
}

void weir_api_answer(struct weir_api_call *call, json_t *result) {
	json_t *answer;

	if (result == NULL) {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	answer = json_pack("{s:b, s:o}", "ok", 1, "result", result);
	if (call->not_published[0] != '\0') {
		json_object_set_new(
			answer, "not_published", weir_api_safe_string(call->not_published));
		if (call->change_unpublished) {
			json_object_set_new(answer, "published", json_false());
		}
	}
	end_call(call, answer);
}

void weir_api_not_published(struct weir_api_call *call, const char *why, bool change) {
	snprintf(call->not_published, sizeof(call->not_published), "%s", why != NULL ? why : "");
	call->change_unpublished = why != NULL && change;
}

void weir_api_fail(struct weir_api_call *call, enum weir_api_code code, const char *format, ...) {
	char text[ERROR_BYTES];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	end_call(call, error_answer(code, text));
}

void weir_api_fail_with(struct weir_api_call *call, enum weir_api_code code, const char *member,
	json_t *value, const char *format, ...) {
	char text[ERROR_BYTES];
	va_list arguments;
	json_t *answer;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	answer = error_answer(code, text);
	if (answer == NULL) {
		json_decref(value);
	} else {
		json_object_set_new(answer, member, value);
	}
	end_call(call, answer);
}

const json_t *weir_api_request(const struct weir_api_call *call) {
	return call->request;
}

const struct weir_api_peer *weir_api_peer(const struct weir_api_call *call) {
	return &call->peer;
}

// --- lists --------------------------------------------------------------------------------

static void finish_list(struct weir_api_call *call, int r) {
	struct client *client = call->client;
	char *text = weir_api_list_release(&call->list);

	if (r < 0 || client == NULL) {
		free(text);
		weir_api_fail(call, r == -ECANCELED ? WEIR_API_NO_DATAPLANE : WEIR_API_INTERNAL,
			"%s",
			r == -ECANCELED ? "weir-dataplane came or went during the reply: ask again"
					: "out of memory");
		return;
	}
	json_decref(call->request);
	free(call);
	client->call = NULL;
	write_text(client, text);
}

static void queue_list(struct weir_api *api, struct weir_api_call *call) {
	struct weir_api_call **link = &api->lists;

	while (*link != NULL) {
		link = &(*link)->next;
	}
	call->next = NULL;
	*link = call;
}

static void on_turn(uv_idle_t *turn) {
	struct weir_api *api = turn->data;
	struct weir_api_call *call = api->lists;
	int r = 1;

	api->lists = call->next;
	for (int i = 0; call->client != NULL && r == 1 && i < ROWS_PER_TURN; i++) {
		r = weir_api_list_next(&call->list);
	}
	if (call->client != NULL && r == 1) {
		queue_list(api, call);
	} else {
		finish_list(call, r);
	}
	if (api->lists == NULL) {
		uv_idle_stop(turn);
	}
}

void weir_api_answer_rows(struct weir_api_call *call, json_t *head, const char *member,
	const struct weir_api_rows *rows) {
	int r = weir_api_list_begin(&call->list, call->not_published, head, member, rows);

	json_decref(head);
	if (r < 0 || call->client == NULL) {
		finish_list(call, -ENOMEM);
		return;
	}
	queue_list(call->client->api, call);
	uv_idle_start(&call->client->api->turn, on_turn);
}

// --- requests -----------------------------------------------------------------------------

static void handle_line(struct client *client, const char *line, size_t bytes) {
	struct weir_api_call *call;
	char text[JSON_ERROR_TEXT_LENGTH + 64];
	json_error_t error;
	json_t *request = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);

	client->asked_ms = uv_now(client->api->loop);
	if (!json_is_object(request)) {
		snprintf(text, sizeof(text), "not a JSON object: %s",
			request == NULL ? error.text
					: "expected a request like {\"command\": ...}");
		json_decref(request);
		write_answer(client, error_answer(WEIR_API_BAD_REQUEST, text));
		return;
	}
	call = calloc(1, sizeof(*call));
	if (call == NULL) {
		json_decref(request);
		cut_off(client);
		return;
	}
	call->client = client;
	call->peer = client->peer;
	call->request = request;
	client->call = call;
	client->api->handler(client->api->context, call);
}

static void consume(struct client *client, size_t bytes) {
	client->taken += bytes;
	client->in_bytes -= bytes;
	client->searched = 0;
}

static bool is_blank(const char *line, size_t bytes) {
	for (size_t i = 0; i < bytes; i++) {
		if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r') {
			return false;
		}
	}
	return true;
}

// Handle the first line in the buffer. Returns whether there was one.
static bool take_line(struct client *client) {
	if (client->in == NULL) { // nothing was received yet
		return false;
	}
	const char *line = client->in + client->taken;
	const char *newline =
		client->in_bytes > client->searched
			? memchr(line + client->searched, '\n', client->in_bytes - client->searched)
			: NULL;
	size_t bytes = newline != NULL ? (size_t)(newline - line) : client->in_bytes;
	size_t used = newline != NULL ? bytes + 1 : bytes;

	if (client->discarding) {
		client->discarding = newline == NULL;
		consume(client, used);
		return newline != NULL;
	}
	if (bytes > WEIR_API_LINE_BYTES) {
		client->discarding = newline == NULL;
		consume(client, used);
		write_answer(client, error_answer(WEIR_API_BAD_REQUEST,
					     (char[]){"request line longer than 1 MiB"}));
		return true;
	}
	if (newline == NULL && !(client->ended && bytes > 0)) {
		client->searched = client->in_bytes;
		return false;
	}
	consume(client, used); // the bytes stay where they are until the next read
	if (!is_blank(line, bytes)) {
		handle_line(client, line, bytes);
	}
	return true;
}

static void offer_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
	struct client *client = handle->data;

	(void)suggested;
	*ret = uv_buf_init(NULL, 0);
	if (client->taken > 0) {
		memmove(client->in, client->in + client->taken, client->in_bytes);
		client->taken = 0;
	}
	if (client->in_room - client->in_bytes < READ_BYTES) {
		char *grown = realloc(client->in, client->in_room + 2 * READ_BYTES);

		if (grown == NULL) {
			return;
		}
		client->in = grown;
		client->in_room += 2 * READ_BYTES;
	}
	*ret = uv_buf_init(client->in + client->in_bytes, READ_BYTES);
}

static void received(uv_stream_t *stream, ssize_t n, const uv_buf_t *buffer) {
	struct client *client = stream->data;

	(void)buffer;
	if (n == 0) {
		return;
	}
	if (n < 0 && n != UV_EOF) {
		cut_off(client);
		return;
	}
	if (n < 0) {
		client->ended = true;
	} else {
		client->in_bytes += (size_t)n;
	}
	uv_read_stop(stream);
	next_request(client);
}

// Handle buffered lines until a reply is pending, then wait until the client has read it (A2). The
// next iteration of the loop continues, so no client delays the others by more than one request.
static void next_request(struct client *client) {
	while (client->call == NULL && client->out == NULL) {
		if (uv_is_closing((uv_handle_t *)&client->pipe)) {
			return;
		}
		if (take_line(client)) {
			continue;
		}
		if (uv_is_closing((uv_handle_t *)&client->pipe)) {
			return;
		}
		if (client->ended ||
			uv_read_start((uv_stream_t *)&client->pipe, offer_room, received) < 0) {
			cut_off(client);
		}
		return;
	}
}

// --- new clients --------------------------------------------------------------------------

static bool is_evictable(const struct client *client, bool may_change) {
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return false;
	}
	if (may_change && !client->peer.may_change) {
		return true;
	}
	return client->call == NULL && client->out == NULL &&
	       uv_now(client->api->loop) - client->asked_ms >= WEIR_API_IDLE_MS;
}

// Make room for a new client: close the connection that has been idle longest, and has no pending
// request unless the new one may change and the other may not (A3, A5).
static bool evict(struct weir_api *api, bool may_change) {
	struct client *oldest = NULL;

	for (struct client *client = api->clients; client != NULL; client = client->next) {
		if (is_evictable(client, may_change) &&
			(oldest == NULL || client->asked_ms <= oldest->asked_ms)) {
			oldest = client;
		}
	}
	if (oldest != NULL) {
		cut_off(oldest);
	}
	return oldest != NULL;
}

// fd and client are ours from here on.
static void connected(struct weir_api *api, int fd, struct client *client) {
	bool full;

	weir_api_peer_learn(fd, api->admin_group, &client->peer);
	full = api->count >= WEIR_API_CLIENTS && !evict(api, client->peer.may_change);
	client->api = api;
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
	client->asked_ms = uv_now(api->loop);
	if (uv_pipe_open(&client->pipe, fd) < 0) {
		close(fd);
		cut_off(client);
		return;
	}
	if (full) {
		client->ended = true; // so that the connection ends with this answer
		write_answer(client,
			error_answer(WEIR_API_REFUSED, (char[]){"too many open connections: close "
								"one, or try again later"}));
		return;
	}
	next_request(client);
}

static void knocked(uv_poll_t *listener, int status, int events);

static void accept_again(uv_timer_t *timer) {
	struct weir_api *api = timer->data;

	(void)uv_poll_start(&api->listener, UV_READABLE, knocked);
}

// There is no memory or no descriptor for a client: they wait, and the loop must not spin.
static void accept_later(struct weir_api *api) {
	uv_poll_stop(&api->listener);
	uv_timer_start(&api->again, accept_again, ACCEPT_AGAIN_MS, 0);
}

// Not uv_listen, which accepts until nobody waits: as long as somebody connects fast enough (A6).
static void knocked(uv_poll_t *listener, int status, int events) {
	struct weir_api *api = listener->data;

	(void)status; // what is wrong, accept says too
	(void)events;
	for (int i = 0; i < ACCEPTS_MAX; i++) {
		struct client *client = calloc(1, sizeof(*client));
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
	// Listen first: once a libuv handle exists only the loop can release it.
	if (listen(fd, WEIR_API_CLIENTS) < 0) {
		r = -errno;
		close(fd);
		free(api);
		return r;
	}
	r = uv_poll_init(loop, &api->listener, fd); // makes it non-blocking
	if (r < 0) {
		close(fd);
		free(api);
		return r;
	}
	uv_idle_init(loop, &api->turn);
	uv_timer_init(loop, &api->again);
	api->listener.data = api->again.data = api->turn.data = api;
	api->handles = 3;
	r = uv_poll_start(&api->listener, UV_READABLE, knocked);
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
		finish_close(api);
	}
}

void weir_api_close(struct weir_api *api, void (*closed)(void *context)) {
	api->closing = true;
	api->closed = closed;
	for (struct client *client = api->clients; client != NULL; client = client->next) {
		cut_off(client);
	}
	while (api->lists != NULL) {
		struct weir_api_call *call = api->lists;

		api->lists = call->next;
		finish_list(call, -ENOMEM); // its client has gone
	}
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
