// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api_private.h"
#include "foreign_descriptors.h"

#define READ_BYTES 65536
#define ERROR_BYTES 1024
// Number of rows of a list that are built in one iteration of the loop. Building this number of
// rows takes one or two milliseconds.
#define ROWS_PER_TURN 64

static const char *const code_names[] = {
#define X(name, key) [WEIR_API_##name] = key,
	WEIR_API_CODES(X)
#undef X
};

const char *weir_api_code_name(enum weir_api_code code) {
	return (unsigned int)code < sizeof(code_names) / sizeof(code_names[0]) ? code_names[code]
									       : "internal";
}

// --- disconnecting a client ---------------------------------------------------------------

void weir_api_finish_close(struct weir_api *api) {
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
	struct weir_api_client *client = handle->data;
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
	weir_api_finish_close(api);
}

static void stop_waiting(struct weir_api_client *client) {
	struct weir_api_client **link = &client->api->waiting;

	while (*link != NULL && *link != client) {
		link = &(*link)->next_waiting;
	}
	if (*link != NULL) {
		*link = client->next_waiting;
	}
	client->waiting = false;
}

void weir_api_cut_off(struct weir_api_client *client) {
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return;
	}
	stop_waiting(client);
	if (client->call != NULL) {
		client->call->client = NULL;
		client->call = NULL;
	}
	client->api->count--;
	weir_foreign_begin();
	uv_close((uv_handle_t *)&client->pipe, client_handle_closed);
	weir_foreign_end();
	uv_close((uv_handle_t *)&client->deadline, client_handle_closed);
	if (client->disconnected != NULL) {
		client->disconnected(client->disconnected_context, client->connection);
	}
}

// --- answers ------------------------------------------------------------------------------

static void answer_late(uv_timer_t *timer) {
	weir_api_cut_off(timer->data);
}

static void answer_written(uv_write_t *write, int status) {
	struct weir_api_client *client = write->data;

	free(client->out);
	client->out = NULL;
	client->held = 0;
	if (uv_is_closing((uv_handle_t *)&client->pipe)) {
		return;
	}
	uv_timer_stop(&client->deadline);
	if (status < 0) {
		weir_api_cut_off(client);
		return;
	}
	weir_api_next_request(client);
}

// Writes one reply. Takes ownership of text.
static void write_text(struct weir_api_client *client, char *text) {
	uv_buf_t buffers[2];

	// Out of memory: disconnect. Otherwise the client would wait for an answer that is never
	// sent.
	if (text == NULL) {
		weir_api_cut_off(client);
		return;
	}
	client->out = text;
	client->write.data = client;
	buffers[0] = uv_buf_init(text, (unsigned int)strlen(text));
	buffers[1] = uv_buf_init((char *)"\n", 1);
	uv_timer_start(&client->deadline, answer_late, WEIR_API_ANSWER_MS, 0);
	if (uv_write(&client->write, (uv_stream_t *)&client->pipe, buffers, 2, answer_written) <
		0) {
		weir_api_cut_off(client);
	}
}

void weir_api_write_answer(struct weir_api_client *client, json_t *answer) {
	char *text = answer != NULL ? json_dumps(answer, WEIR_API_DUMP_FLAGS) : NULL;

	json_decref(answer);
	write_text(client, text);
}

static void end_call(struct weir_api_call *call, json_t *answer) {
	struct weir_api_client *client = call->client;

	json_decref(call->request);
	free(call);
	if (client == NULL) {
		json_decref(answer);
		return;
	}
	client->call = NULL;
	weir_api_write_answer(client, answer);
}

json_t *weir_api_error_answer(enum weir_api_code code, char *text) {
	return json_pack("{s:b, s:s, s:o}", "ok", 0, "code", weir_api_code_name(code), "error",
		weir_api_safe_string(text));
}

void weir_api_when_ended(struct weir_api_call *call, weir_api_ended ended, void *context) {
	call->ended = ended;
	call->ended_context = context;
}

void *weir_api_ended_context(const struct weir_api_call *call) {
	return call->ended_context;
}

static void notify_end(struct weir_api_call *call, const char *code, const char *text) {
	if (call->ended != NULL) {
		call->ended(call->ended_context, call, code, text);
		call->ended = NULL;
	}
}

void weir_api_answer(struct weir_api_call *call, json_t *result) {
	json_t *answer;

	if (result == NULL) {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
		return;
	}
	notify_end(call, NULL, call->change_unpublished ? call->not_published : NULL);
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
	notify_end(call, weir_api_code_name(code), text);
	end_call(call, weir_api_error_answer(code, text));
}

void weir_api_fail_with(struct weir_api_call *call, enum weir_api_code code, json_t *members,
	const char *format, ...) {
	char text[ERROR_BYTES];
	va_list arguments;
	json_t *answer;

	va_start(arguments, format);
	vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	notify_end(call, weir_api_code_name(code), text);
	answer = weir_api_error_answer(code, text);
	if (answer != NULL) {
		json_object_update(answer, members);
	}
	json_decref(members);
	end_call(call, answer);
}

const json_t *weir_api_request(const struct weir_api_call *call) {
	return call->request;
}

const struct weir_api_peer *weir_api_peer(const struct weir_api_call *call) {
	return &call->peer;
}

uint64_t weir_api_connection(const struct weir_api_call *call) {
	return call->connection;
}

void weir_api_on_disconnect(
	struct weir_api_call *call, weir_api_disconnected disconnected, void *context) {
	if (call->client != NULL) {
		call->client->disconnected = disconnected;
		call->client->disconnected_context = context;
	}
}

// Checks the socket: weir-control does not read from a client while it handles a call of this
// client, so libuv does not report a disconnection during this time.
bool weir_api_is_connected(const struct weir_api_call *call) {
	struct pollfd connection = {.fd = -1};

	return call->client != NULL &&
	       uv_fileno((const uv_handle_t *)&call->client->pipe, &connection.fd) == 0 &&
	       (poll(&connection, 1, 0) == 0 || (connection.revents & POLLHUP) == 0);
}

// --- lists --------------------------------------------------------------------------------

static void fail_list(struct weir_api_call *call, int r) {
	if (r == -ECANCELED) {
		weir_api_fail(call, WEIR_API_NO_DATAPLANE,
			"weir-dataplane started or stopped during the reply: try again");
	} else if (r == -ENOBUFS) {
		weir_api_fail(call, WEIR_API_REFUSED,
			"replies with lists that this user's clients have not read yet use too "
			"much memory: read these replies, or request fewer lists at a time");
	} else {
		weir_api_fail(call, WEIR_API_INTERNAL, "out of memory");
	}
}

static void finish_list(struct weir_api_call *call, int r) {
	struct weir_api_client *client = call->client;
	char *text = weir_api_list_release(&call->list);

	if (r < 0) {
		free(text);
		if (client != NULL) {
			client->held = 0;
		}
		fail_list(call, r);
		return;
	}
	notify_end(call, NULL, NULL);
	json_decref(call->request);
	free(call);
	if (client == NULL) {
		free(text);
		return;
	}
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

static size_t held_by(const struct weir_api *api, uid_t uid) {
	size_t held = 0;

	for (const struct weir_api_client *client = api->clients; client != NULL;
		client = client->next) {
		held += client->peer.uid == uid ? client->held : 0;
	}
	return held;
}

// Builds some rows of the list of the first call in the queue.
static void build_list(struct weir_api *api) {
	struct weir_api_call *call = api->lists;
	int r = 1;

	api->lists = call->next;
	for (int i = 0; call->client != NULL && r == 1 && i < ROWS_PER_TURN; i++) {
		r = weir_api_list_next(&call->list);
		call->client->held = call->list.bytes;
	}
	if (r >= 0 && held_by(api, call->peer.uid) > api->user_bytes) {
		r = -ENOBUFS;
	}
	if (call->client != NULL && r == 1) {
		queue_list(api, call);
	} else {
		finish_list(call, r);
	}
}

// Returns whether this iteration of the loop has time for another request. If not, on_turn handles
// the next request in the next iteration.
static bool is_time_left(struct weir_api *api) {
	uint64_t now_ns = uv_hrtime();

	if (api->turn_began_ns == 0) {
		api->turn_began_ns = now_ns;
	}
	return now_ns - api->turn_began_ns < WEIR_API_TURN_NS;
}

static void on_turn(uv_idle_t *turn) {
	struct weir_api *api = turn->data;

	api->turn_began_ns = 0;
	while (api->waiting != NULL && is_time_left(api)) {
		struct weir_api_client *client = api->waiting;

		stop_waiting(client);
		weir_api_next_request(client);
	}
	if (api->lists != NULL) {
		build_list(api);
	}
	if (api->lists == NULL && api->turn_began_ns == 0) {
		uv_idle_stop(turn);
	}
}

// Returns whether the request of this client must wait for the next iteration of the loop; if so,
// queues the client. Clients that may make changes are queued before other clients. While the
// server closes, returns true without queueing the client.
static bool wait_for_turn(struct weir_api_client *client) {
	struct weir_api *api = client->api;
	struct weir_api_client **link = &api->waiting;

	if (api->closing) {
		return true;
	}
	uv_idle_start(&api->turn, on_turn);
	if (is_time_left(api)) {
		return false;
	}
	while (*link != NULL && (!client->peer.may_change || (*link)->peer.may_change)) {
		link = &(*link)->next_waiting;
	}
	client->waiting = true;
	client->next_waiting = *link;
	*link = client;
	return true;
}

void weir_api_abandon_lists(struct weir_api *api) {
	while (api->lists != NULL) {
		struct weir_api_call *call = api->lists;

		api->lists = call->next;
		finish_list(call, 0); // the client of this call is disconnected
	}
}

void weir_api_answer_rows(struct weir_api_call *call, json_t *head, const char *member,
	const struct weir_api_rows *rows) {
	int r = weir_api_list_begin(&call->list, call->not_published, head, member, rows);

	json_decref(head);
	if (r < 0 || call->client == NULL) {
		finish_list(call, r);
		return;
	}
	queue_list(call->client->api, call);
	uv_idle_start(&call->client->api->turn, on_turn);
}

// --- requests -----------------------------------------------------------------------------

// Returns whether the line has more JSON values than any valid request. Counts the commas and
// opening brackets outside strings, which is much faster than parsing the values.
static bool has_too_many_values(const char *line, size_t bytes) {
	bool quoted = false;
	unsigned int values = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (line[i] == '"') {
			quoted = !quoted;
		} else if (quoted) {
			i += line[i] == '\\'; // skip the escaped character
		} else {
			values += line[i] == ',' || line[i] == '[' || line[i] == '{';
		}
	}
	return values > WEIR_API_VALUES_MAX;
}

static void refuse_line(struct weir_api_client *client, char *why) {
	weir_api_write_answer(client, weir_api_error_answer(WEIR_API_BAD_REQUEST, why));
}

static void handle_line(struct weir_api_client *client, const char *line, size_t bytes) {
	struct weir_api_call *call;
	char text[JSON_ERROR_TEXT_LENGTH + 64];
	json_error_t error;
	json_t *request;

	client->request_ms = uv_now(client->api->loop);
	if (has_too_many_values(line, bytes)) {
		refuse_line(client, (char[]){"invalid request: too many JSON values"});
		return;
	}
	request = json_loadb(line, bytes, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(request)) {
		snprintf(text, sizeof(text), "not a JSON object: %s",
			request == NULL ? error.text
					: "expected a request like {\"command\": ...}");
		json_decref(request);
		refuse_line(client, text);
		return;
	}
	call = calloc(1, sizeof(*call));
	if (call == NULL) {
		json_decref(request);
		weir_api_cut_off(client);
		return;
	}
	call->client = client;
	call->peer = client->peer;
	call->connection = client->connection;
	call->request = request;
	client->call = call;
	client->api->handler(client->api->context, call);
}

static void consume(struct weir_api_client *client, size_t bytes) {
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

// Handle the first line in the buffer; after the end of the client's data, also an incomplete line.
// Returns false if the buffer contains no such line.
static bool take_line(struct weir_api_client *client) {
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
		refuse_line(client, (char[]){"request line longer than 32 KiB"});
		return true;
	}
	if (newline == NULL && !(client->ended && bytes > 0)) {
		client->searched = client->in_bytes;
		return false;
	}
	// Only marks the bytes as handled: the next read removes them from the buffer.
	consume(client, used);
	if (!is_blank(line, bytes)) {
		handle_line(client, line, bytes);
	}
	return true;
}

// Passes the free space of the client's buffer to libuv. libuv calls this function before it reads
// from a client, and received() after the read.
static void offer_room(uv_handle_t *handle, size_t suggested, uv_buf_t *ret) {
	struct weir_api_client *client = handle->data;

	(void)suggested;
	weir_foreign_begin();
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
	struct weir_api_client *client = stream->data;

	(void)buffer;
	weir_foreign_end();
	if (n == 0) {
		return;
	}
	if (n < 0 && n != UV_EOF) {
		weir_api_cut_off(client);
		return;
	}
	if (n < 0) {
		client->ended = true;
	} else {
		client->in_bytes += (size_t)n;
	}
	uv_read_stop(stream);
	weir_api_next_request(client);
}

// Returns whether the bytes that were not searched yet contain the end of a line, or the buffer
// contains the last bytes that the client sends.
static bool has_line(const struct weir_api_client *client) {
	return client->in_bytes > 0 &&
	       (client->ended || memchr(client->in + client->taken + client->searched, '\n',
					 client->in_bytes - client->searched) != NULL);
}

void weir_api_next_request(struct weir_api_client *client) {
	while (!client->waiting && client->call == NULL && client->out == NULL) {
		if (uv_is_closing((uv_handle_t *)&client->pipe)) {
			return;
		}
		if (has_line(client) && wait_for_turn(client)) {
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
			weir_api_cut_off(client);
		}
		return;
	}
}
