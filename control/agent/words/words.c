// SPDX-License-Identifier: BSD-3-Clause
#include "words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "foreign_descriptors.h"
#include "plural.h"

struct weir_word_client {
	struct weir_word_service *service;
	struct weir_word_client **place; // slot of this client in service->client
	struct ucred peer;
	int fd;
	uint32_t reads;
	uv_poll_t poll;
	char request[WEIR_WORD_REQUEST_BYTES + 1]; // full if the request is too long
	size_t bytes;
};

static uint32_t index_of(const struct weir_word_service *service) {
	return (uint32_t)(service - service->words->service);
}

static const struct weir_named_service *named(const struct weir_word_service *service) {
	return &service->words->params.services->service[index_of(service)];
}

static uint64_t now_of(const struct weir_word_service *service) {
	return uv_now(service->poll.loop);
}

static void on_turn(uv_timer_t *timer);

static void need_turns(struct weir_words *words) {
	if (!uv_is_active((const uv_handle_t *)&words->turn)) {
		uv_timer_start(&words->turn, on_turn, WEIR_WORDS_TURN_MS, WEIR_WORDS_TURN_MS);
	}
}

// --- announced states ---------------------------------------------------------------------

static bool may_change(struct weir_word_service *service) {
	uint64_t past = (now_of(service) - service->changes_ms) / WEIR_WORDS_CHANGE_MS;

	service->changes -= past < service->changes ? (uint32_t)past : service->changes;
	service->changes_ms += past * WEIR_WORDS_CHANGE_MS;
	return service->changes < WEIR_WORDS_CHANGES;
}

static uint32_t ended(const struct weir_word_service *service, enum weir_health_word word) {
	const struct weir_words_params *params = &service->words->params;

	return params->ended(params->context, index_of(service), word);
}

static void announce(struct weir_word_service *service, enum weir_health_word word) {
	const struct weir_words_params *params = &service->words->params;

	service->is_waiting = false;
	if (!params->has(params->context, index_of(service), word)) {
		service->changes++;
		params->announce(params->context, index_of(service), word);
	}
}

static void take_word(
	struct weir_word_service *service, enum weir_health_word word, const struct ucred *peer) {
	const struct weir_words_params *params = &service->words->params;
	const char *name = weir_health_word_name(word);
	bool changes = !params->has(params->context, index_of(service), word);
	bool now = may_change(service);

	if (changes && now) {
		weir_log_event(params->log, WEIR_LOG_INFO,
			&(struct weir_log_fields){.service = named(service)->name, .state = name},
			"service %s: %s, announced by pid %d of user %u", named(service)->name,
			name, (int)peer->pid, (unsigned int)peer->uid);
	}
	if (now || !changes) {
		announce(service, word);
	} else {
		service->is_waiting = true;
		service->waiting = word;
		service->waiting_ended = ended(service, word);
		service->postponed++;
		need_turns(service->words);
	}
}

static void fill_reply(const struct weir_word_service *service, struct weir_word_reply *ret) {
	const struct weir_words_params *params = &service->words->params;

	*ret = (struct weir_word_reply){.word = params->word(params->context, index_of(service)),
		.port_count = named(service)->port_count};
	memcpy(ret->port, named(service)->port, sizeof(ret->port));
	params->count(params->context, index_of(service), ret);
}

// --- clients ------------------------------------------------------------------------------

static bool is_allowed(const struct weir_word_service *service, uid_t uid) {
	return uid == 0 || uid == service->words->params.listeners->uid[index_of(service)];
}

// Execute the request if all of it was read, and reply. The state is announced even if the client
// has closed the connection without waiting for the reply.
static void reply_to(struct weir_word_client *client, bool whole) {
	struct weir_word_service *service = client->service;
	enum weir_health_word word = WEIR_HEALTH_WORD_NONE;
	char text[WEIR_WORD_REPLY_BYTES];
	struct weir_word_reply reply;

	service->requests++;
	if (!is_allowed(service, client->peer.uid)) {
		service->refused++;
		snprintf(text, sizeof(text), "error: user %u may not announce for service %s\n",
			(unsigned int)client->peer.uid, named(service)->name);
	} else if (!whole) {
		service->refused++;
		snprintf(text, sizeof(text),
			"error: the request is too long; use at most %d bytes, in one part\n",
			WEIR_WORD_REQUEST_BYTES);
	} else if (weir_word_lines_read(client->request, client->bytes, &word)) {
		service->refused++;
		snprintf(text, sizeof(text),
			"error: unknown request; use starting, ready, lame-duck, down or status\n");
	} else {
		if (word != WEIR_HEALTH_WORD_NONE) {
			take_word(service, word, &client->peer);
		}
		fill_reply(service, &reply);
		weir_word_reply_write(named(service)->name, &reply, text);
	}
	(void)!send(client->fd, text, strlen(text), MSG_NOSIGNAL);
}

static void free_client(uv_handle_t *handle) {
	struct weir_word_client *client = handle->data;

	weir_foreign_close(client->fd);
	free(client);
}

static void close_client(struct weir_word_client *client) {
	*client->place = NULL;
	uv_close((uv_handle_t *)&client->poll, free_client);
}

// Read a part of a request. A request ends with a line feed, or when the client closes the
// connection. A request is refused if it is too long or comes in too many parts.
static void on_request(uv_poll_t *poll, int status, int events) {
	struct weir_word_client *client = poll->data;
	ssize_t n = weir_foreign_read(client->fd, client->request + client->bytes,
		sizeof(client->request) - client->bytes);
	bool ended = n <= 0;

	(void)status;
	(void)events;
	if (n < 0 && errno == EAGAIN) {
		return;
	}
	if (n > 0) {
		client->bytes += (size_t)n;
		client->reads++;
		ended = client->request[client->bytes - 1] == '\n';
		if (!ended && client->bytes < sizeof(client->request) &&
			client->reads < WEIR_WORDS_READS) {
			return;
		}
	}
	if (client->bytes > 0) {
		reply_to(client, ended && client->bytes < sizeof(client->request));
	}
	close_client(client);
}

// Start to read the request of a new client. Takes ownership of fd, and closes fd if the client
// cannot be added.
static void add_client(struct weir_word_service *service, int fd) {
	struct weir_word_client **place =
		&service->client[service->next_client++ % WEIR_WORDS_CLIENTS];
	struct weir_word_client *client = calloc(1, sizeof(*client));
	socklen_t bytes = sizeof(client->peer);

	if (client == NULL || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &client->peer, &bytes) ||
		uv_poll_init(service->poll.loop, &client->poll, fd)) {
		free(client);
		weir_foreign_close(fd);
		return;
	}
	if (*place != NULL) {
		close_client(*place);
	}
	client->service = service;
	client->fd = fd;
	client->poll.data = client;
	client->place = place;
	*place = client;
	uv_poll_start(&client->poll, UV_READABLE, on_request);
}

static void on_connection(uv_poll_t *poll, int status, int events) {
	struct weir_word_service *service = poll->data;
	int fd;

	(void)status;
	(void)events;
	if (now_of(service) - service->turn_ms >= WEIR_WORDS_TURN_MS) {
		service->turn_ms = now_of(service);
		service->accepted = 0;
	}
	if (service->accepted == WEIR_WORDS_ACCEPTED) {
		service->paused = true;
		uv_poll_stop(poll);
		need_turns(service->words);
		return;
	}
	service->accepted++;
	fd = accept4(service->words->params.listeners->fd[index_of(service)], NULL, NULL,
		SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		add_client(service, fd);
	}
}

// --- timer --------------------------------------------------------------------------------

// Handles the timer of a service: ends the pause in which no connections are accepted, and applies
// the waiting state if the announced state may change now. Returns whether the timer must run again
// for the service.
static bool turn(struct weir_word_service *service) {
	if (service->paused && now_of(service) - service->turn_ms >= WEIR_WORDS_TURN_MS) {
		service->paused = false;
		uv_poll_start(&service->poll, UV_READABLE, on_connection);
	}
	if (service->is_waiting && service->waiting != WEIR_HEALTH_WORD_READY &&
		ended(service, service->waiting) != service->waiting_ended) {
		service->is_waiting = false;
	}
	if (service->is_waiting && may_change(service)) {
		announce(service, service->waiting);
	}
	return service->paused || service->is_waiting;
}

static void on_turn(uv_timer_t *timer) {
	struct weir_words *words = timer->data;
	bool more = false;

	for (uint32_t i = 0; i < words->params.services->count; i++) {
		more |= turn(&words->service[i]);
	}
	if (!more) {
		uv_timer_stop(timer);
	}
}

// --- start and stop -----------------------------------------------------------------------

int weir_words_start(
	uv_loop_t *loop, const struct weir_words_params *params, struct weir_words *ret) {
	int r;

	*ret = (struct weir_words){.params = *params};
	r = uv_timer_init(loop, &ret->turn);
	if (r) {
		return r;
	}
	ret->turn.data = ret;
	for (uint32_t i = 0; r == 0 && i < params->services->count; i++) {
		struct weir_word_service *service = &ret->service[i];

		service->words = ret;
		service->changes_ms = uv_now(loop);
		r = uv_poll_init(loop, &service->poll, params->listeners->fd[i]);
		if (r == 0) {
			service->poll.data = service;
			uv_poll_start(&service->poll, UV_READABLE, on_connection);
		}
	}
	return r;
}

void weir_words_stop(struct weir_words *words) {
	if (words->turn.data == NULL) {
		return;
	}
	uv_close((uv_handle_t *)&words->turn, NULL);
	for (uint32_t i = 0; i < words->params.services->count; i++) {
		struct weir_word_service *service = &words->service[i];

		for (int j = 0; j < WEIR_WORDS_CLIENTS; j++) {
			if (service->client[j] != NULL) {
				close_client(service->client[j]);
			}
		}
		if (service->poll.data != NULL) {
			uv_close((uv_handle_t *)&service->poll, NULL);
		}
	}
}

// --- status -------------------------------------------------------------------------------

json_t *weir_words_status(const struct weir_words *words) {
	json_t *list = json_array();

	for (uint32_t i = 0; words->turn.data != NULL && i < words->params.services->count; i++) {
		const struct weir_word_service *service = &words->service[i];
		struct weir_word_reply reply;

		fill_reply(service, &reply);
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "service",
				      named(service)->name, "user", named(service)->user, "word",
				      weir_health_word_name(reply.word), "pending",
				      (json_int_t)reply.pending, "requests",
				      (json_int_t)service->requests, "refused",
				      (json_int_t)service->refused, "postponed",
				      (json_int_t)service->postponed));
	}
	return list;
}

static json_int_t number_of(const json_t *object, const char *name) {
	return json_integer_value(json_object_get(object, name));
}

void weir_words_status_write(const json_t *status, FILE *out) {
	const json_t *service;
	size_t i;

	json_array_foreach (status, i, service) {
		const char *user = json_string_value(json_object_get(service, "user"));

		fprintf(out,
			"service    %s of %s: %s, %" JSON_INTEGER_FORMAT
			" request%s, %" JSON_INTEGER_FORMAT " refused, %" JSON_INTEGER_FORMAT
			" postponed\n",
			json_string_value(json_object_get(service, "service")),
			user != NULL && user[0] != '\0' ? user : "root",
			json_string_value(json_object_get(service, "word")),
			number_of(service, "requests"),
			weir_plural((uint64_t)number_of(service, "requests")),
			number_of(service, "refused"), number_of(service, "postponed"));
	}
}
