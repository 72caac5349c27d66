// SPDX-License-Identifier: BSD-3-Clause
#include "api_lab.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static void release_kept(struct server *server) {
	if (server->kept != NULL) {
		weir_api_answer(server->kept, json_string("kept"));
		server->kept = NULL;
	}
}

static void later_due(uv_timer_t *timer) {
	release_kept(timer->data);
}

static void answer_big(struct weir_api_call *call) {
	char *text = malloc(BIG_BYTES + 1);

	memset(text, 'x', BIG_BYTES);
	text[BIG_BYTES] = '\0';
	weir_api_answer(call, json_string(text));
	free(text);
}

struct rows {
	struct server *server;
	json_int_t at, n, cancel;
	size_t pad; // size of a row in bytes; 0 = a row contains only its number
	json_int_t others; // number of rows of a second list; -1 = no second list
};

static json_t *padded(size_t bytes) {
	char *text = malloc(bytes);
	json_t *row;

	memset(text, 'x', bytes);
	row = json_stringn_nocheck(text, bytes);
	free(text);
	return row;
}

static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;

	if (rows->at == rows->n && rows->others >= 0) {
		rows->at = 0;
		rows->n = rows->others;
		rows->others = -1;
		*ret = json_string("others");
		return 2;
	}
	if (rows->at == rows->n || rows->at == rows->cancel) {
		return rows->at == rows->n ? 0 : -ECANCELED;
	}
	*ret = rows->pad > 0 ? padded(rows->pad) : json_integer(rows->at);
	rows->at++;
	__atomic_add_fetch(&rows->server->rows, 1, __ATOMIC_RELAXED);
	return 1;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	__atomic_add_fetch(&rows->server->lists_freed, 1, __ATOMIC_RELAXED);
	free(rows);
}

static void on_rows_ended(
	void *context, const struct weir_api_call *call, const char *code, const char *text) {
	struct server *server = context;

	(void)text;
	server->failed_unread |= code != NULL && !weir_api_is_connected(call);
}

static void answer_rows(struct server *server, struct weir_api_call *call) {
	const json_t *request = weir_api_request(call);
	json_t *head = json_object_get(request, "head");
	struct rows *rows = calloc(1, sizeof(*rows));
	struct weir_api_rows list = {.next = next_row, .free = free_rows, .context = rows};

	server->lists++;
	rows->server = server;
	rows->n = json_integer_value(json_object_get(request, "n"));
	rows->pad = (size_t)json_integer_value(json_object_get(request, "pad"));
	rows->cancel = rows->others = -1;
	if (json_object_get(request, "others") != NULL) {
		rows->others = json_integer_value(json_object_get(request, "others"));
	}
	if (json_object_get(request, "cancel") != NULL) {
		rows->cancel = json_integer_value(json_object_get(request, "cancel"));
	}
	weir_api_when_ended(call, on_rows_ended, server);
	weir_api_answer_rows(call, json_incref(head), head != NULL ? "list" : NULL, &list);
}

static void answer_slowly(struct server *server, struct weir_api_call *call) {
	uint64_t until_ns = uv_hrtime() + SLOW_NS;

	while (uv_hrtime() < until_ns) {
	}
	server->slow_in_turn++;
	if (server->slow_in_turn > server->most_in_turn) {
		__atomic_store_n(&server->most_in_turn, server->slow_in_turn, __ATOMIC_RELAXED);
	}
	weir_api_answer(call, json_null());
}

static void on_turn(uv_check_t *turn) {
	struct server *server = turn->data;

	server->slow_in_turn = 0;
}

static void handle(void *context, struct weir_api_call *call) {
	struct server *server = context;
	const char *command = json_string_value(json_object_get(weir_api_request(call), "command"));

	__atomic_add_fetch(&server->handled, 1, __ATOMIC_RELAXED);
	if (command == NULL) {
		weir_api_fail(call, WEIR_API_BAD_REQUEST, "there is no command");
	} else if (strcmp(command, "echo") == 0) {
		weir_api_answer(call, json_incref((json_t *)weir_api_request(call)));
	} else if (strcmp(command, "peer") == 0) {
		weir_api_answer(call, json_pack("{s:i, s:i}", "pid", (int)weir_api_peer(call)->pid,
					      "uid", (int)weir_api_peer(call)->uid));
	} else if (strcmp(command, "big") == 0) {
		answer_big(call);
	} else if (strcmp(command, "rows") == 0) {
		answer_rows(server, call);
	} else if (strcmp(command, "slow") == 0) {
		answer_slowly(server, call);
	} else if (strcmp(command, "keep") == 0) {
		release_kept(server);
		server->kept = call;
	} else if (strcmp(command, "later") == 0) {
		release_kept(server);
		server->kept = call;
		uv_timer_start(&server->later, later_due, 20, 0);
	} else if (strcmp(command, "release") == 0) {
		release_kept(server);
		weir_api_answer(call, json_null());
	} else {
		weir_api_fail_with(call, WEIR_API_REFUSED, json_pack("{s:[]}", "errors"), "%s%c%c",
			"odd: ", 0xc3, 0x28);
	}
}

static void on_closed(void *context) {
	struct server *server = context;

	server->closed = true;
}

static void on_stop(uv_async_t *async) {
	struct server *server = async->data;

	release_kept(server);
	weir_api_close(server->api, on_closed);
	uv_close((uv_handle_t *)&server->stop, NULL);
	uv_close((uv_handle_t *)&server->later, NULL);
	uv_close((uv_handle_t *)&server->turn, NULL);
}

static void *run(void *context) {
	struct server *server = context;

	uv_run(&server->loop, UV_RUN_DEFAULT);
	return NULL;
}

static int bound_socket(const char *path) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	return fd;
}

int api_lab_setup(void **state) {
	struct server *server = calloc(1, sizeof(*server));

	signal(SIGPIPE, SIG_IGN); // ignored, as in the daemon
	strcpy(server->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(server->dir));
	snprintf(server->path, sizeof(server->path), "%s/sock", server->dir);
	uv_loop_init(&server->loop);
	uv_async_init(&server->loop, &server->stop, on_stop);
	uv_timer_init(&server->loop, &server->later);
	uv_check_init(&server->loop, &server->turn);
	server->stop.data = server->later.data = server->turn.data = server;
	uv_check_start(&server->turn, on_turn);
	assert_int_equal(weir_api_create(&server->loop, bound_socket(server->path), handle, server,
				 &server->api),
		0);
	weir_api_set_user_bytes(server->api, USER_BYTES);
	assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
	*state = server;
	return 0;
}

int api_lab_teardown(void **state) {
	struct server *server = *state;

	uv_async_send(&server->stop);
	pthread_join(server->thread, NULL);
	assert_true(server->closed);
	assert_int_equal(server->lists_freed, server->lists);
	assert_false(server->failed_unread);
	assert_int_equal(uv_loop_close(&server->loop), 0);
	unlink(server->path);
	rmdir(server->dir);
	free(server);
	return 0;
}

int client(const struct server *server) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = 60};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return fd;
}

bool put(int fd, const char *data, size_t bytes) {
	while (bytes > 0) {
		ssize_t n = send(fd, data, bytes, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return false;
		}
		data += n;
		bytes -= (size_t)n;
	}
	return true;
}

void say(int fd, const char *text) {
	assert_true(put(fd, text, strlen(text)));
}

void say_if_let(int fd, const char *text) {
	(void)put(fd, text, strlen(text));
}

json_t *hear(int fd) {
	static char line[BIG_BYTES + 4096];
	size_t bytes = 0;
	json_t *answer;

	for (const char *newline = NULL; newline == NULL;) {
		// Peek first, because bytes after the newline belong to the next answer.
		ssize_t n = recv(fd, line + bytes, sizeof(line) - bytes, MSG_PEEK);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && errno != ECONNRESET) {
			fail_msg("no answer: %s", strerror(errno));
		}
		if (n <= 0) {
			assert_int_equal(bytes, 0); // the connection must not end within an answer
			return NULL;
		}
		newline = memchr(line + bytes, '\n', (size_t)n);
		n = newline != NULL ? newline + 1 - (line + bytes) : n;
		assert_int_equal(recv(fd, line + bytes, (size_t)n, 0), n);
		bytes += (size_t)n;
	}
	answer = json_loadb(line, bytes, 0, NULL);
	assert_non_null(answer);
	return answer;
}

void expect(int fd, const char *code) {
	json_t *answer = hear(fd);
	const char *got = json_string_value(json_object_get(answer, "code"));

	assert_non_null(answer);
	if (json_is_true(json_object_get(answer, "ok"))) {
		assert_non_null(json_object_get(answer, "result"));
		got = "ok";
	} else {
		assert_non_null(json_string_value(json_object_get(answer, "error")));
	}
	assert_string_equal(got, code);
	json_decref(answer);
}

void expect_end(int fd) {
	assert_null(hear(fd));
	close(fd);
}

void expect_alive(const struct server *server) {
	int fd = client(server);

	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	close(fd);
}

void expect_alive_soon(const struct server *server) {
	struct timespec pause = {.tv_nsec = 10000000};
	bool ok = false;

	for (int i = 0; i < DEADLINE_MS / 20 && !ok; i++) {
		int fd = client(server);
		json_t *answer;

		put(fd, "{\"command\": \"echo\"}\n", 20);
		answer = hear(fd);
		ok = json_is_true(json_object_get(answer, "ok"));
		json_decref(answer);
		close(fd);
		nanosleep(&pause, NULL);
	}
	assert_true(ok);
}
