// SPDX-License-Identifier: BSD-3-Clause
//
// The server in a thread, with a handler that echoes; clients are real sockets of the test.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "api.h"

#define BIG_BYTES (8u << 20) // far beyond what a socket buffers
#define DEADLINE_MS 10000

struct server {
	uv_loop_t loop;
	uv_async_t stop;
	uv_timer_t later;
	struct weir_api *api;
	struct weir_api_call *kept; // by command "keep", answered by "release"
	unsigned int handled;
	unsigned int rows, lists, lists_freed; // so far
	bool closed;
	pthread_t thread;
	char dir[32];
	char path[64];
};

// Commands: echo -> the request; big -> a very long answer; keep -> no answer until release;
// later -> an answer a few turns on; rows -> a list of `n` numbers, as the member `list` of an
// object with `head`, cancelled at the row `cancel`; fail -> an error with broken UTF-8 in its
// text.
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
};

static int next_row(void *context, json_t **ret) {
	struct rows *rows = context;

	if (rows->at == rows->n || rows->at == rows->cancel) {
		return rows->at == rows->n ? 0 : -ECANCELED;
	}
	*ret = json_integer(rows->at++);
	__atomic_add_fetch(&rows->server->rows, 1, __ATOMIC_RELAXED);
	return 1;
}

static void free_rows(void *context) {
	struct rows *rows = context;

	__atomic_add_fetch(&rows->server->lists_freed, 1, __ATOMIC_RELAXED);
	free(rows);
}

static void answer_rows(struct server *server, struct weir_api_call *call) {
	const json_t *request = weir_api_request(call);
	json_t *head = json_object_get(request, "head");
	struct rows *rows = calloc(1, sizeof(*rows));
	struct weir_api_rows list = {.next = next_row, .free = free_rows, .context = rows};

	server->lists++;
	rows->server = server;
	rows->n = json_integer_value(json_object_get(request, "n"));
	rows->cancel = -1;
	if (json_object_get(request, "cancel") != NULL) {
		rows->cancel = json_integer_value(json_object_get(request, "cancel"));
	}
	weir_api_answer_rows(call, json_incref(head), head != NULL ? "list" : NULL, &list);
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
		weir_api_fail_with(call, WEIR_API_REFUSED, "errors", json_array(), "%s%c%c",
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

static int setup(void **state) {
	struct server *server = calloc(1, sizeof(*server));

	strcpy(server->dir, "/tmp/weir-test-XXXXXX");
	assert_non_null(mkdtemp(server->dir));
	snprintf(server->path, sizeof(server->path), "%s/sock", server->dir);
	uv_loop_init(&server->loop);
	uv_async_init(&server->loop, &server->stop, on_stop);
	uv_timer_init(&server->loop, &server->later);
	server->stop.data = server->later.data = server;
	assert_int_equal(weir_api_create(&server->loop, bound_socket(server->path), handle, server,
				 &server->api),
		0);
	assert_int_equal(pthread_create(&server->thread, NULL, run, server), 0);
	*state = server;
	return 0;
}

static int teardown(void **state) {
	struct server *server = *state;

	uv_async_send(&server->stop);
	pthread_join(server->thread, NULL);
	assert_true(server->closed);
	assert_int_equal(server->lists_freed, server->lists);
	assert_int_equal(uv_loop_close(&server->loop), 0);
	unlink(server->path);
	rmdir(server->dir);
	free(server);
	return 0;
}

// --- a client -----------------------------------------------------------------------------
//
// A call may end with EINTR though no signal comes: from libuv 1.45 on a loop has an io_uring, and
// the kernel interrupts the thread that made it when it takes it down, some time after the loop of
// the test before was closed.

static int client(const struct server *server) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval timeout = {.tv_sec = 15};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(address.sun_path, sizeof(address.sun_path), "%s", server->path);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
	return fd;
}

// Returns false when the server has closed.
static bool put(int fd, const char *data, size_t bytes) {
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

static void say(int fd, const char *text) {
	assert_true(put(fd, text, strlen(text)));
}

// The same, but the server may be so far behind that it has as many clients as it takes.
static void say_if_let(int fd, const char *text) {
	(void)put(fd, text, strlen(text));
}

// One answer, or NULL at the end of the connection.
static json_t *hear(int fd) {
	static char line[BIG_BYTES + 4096];
	size_t bytes = 0;
	json_t *answer;

	for (const char *newline = NULL; newline == NULL;) {
		// Look first: what comes after the newline is the next answer's.
		ssize_t n = recv(fd, line + bytes, sizeof(line) - bytes, MSG_PEEK);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0 && errno != ECONNRESET) {
			fail_msg("no answer: %s", strerror(errno));
		}
		if (n <= 0) {
			assert_int_equal(bytes, 0); // never half an answer
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

// Read an answer and compare its code ("ok" when there is none).
static void expect(int fd, const char *code) {
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

static void expect_end(int fd) {
	assert_null(hear(fd));
	close(fd);
}

static void expect_alive(const struct server *server) {
	int fd = client(server);

	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	close(fd);
}

// The same after a crowd: until the last of it was seen to have gone, newcomers are refused.
static void expect_alive_soon(const struct server *server) {
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

// --- no memory ------------------------------------------------------------------------------

static unsigned int *callocs_to_fail(void) {
	static unsigned int count;

	return &count;
}

void *__real_calloc(size_t count, size_t bytes);
void *__wrap_calloc(size_t count, size_t bytes);

void *__wrap_calloc(size_t count, size_t bytes) {
	unsigned int left = __atomic_load_n(callocs_to_fail(), __ATOMIC_RELAXED);

	if (left > 0) {
		__atomic_store_n(callocs_to_fail(), left - 1, __ATOMIC_RELAXED);
		return NULL;
	}
	return __real_calloc(count, bytes);
}

// libuv takes no other connection while one waits to be accepted.
static void a_client_that_found_no_memory_is_served_later(void **state) {
	int fd;

	__atomic_store_n(callocs_to_fail(), 2, __ATOMIC_RELAXED);
	fd = client(*state);
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	assert_int_equal(__atomic_load_n(callocs_to_fail(), __ATOMIC_RELAXED), 0);
	expect_alive(*state);
	close(fd);
}

// --- tests --------------------------------------------------------------------------------

static void a1_one_answer_per_line_in_order(void **state) {
	int fd = client(*state);
	static char lines[65536];
	size_t used = 0;

	for (int i = 0; i < 1000; i++) {
		used += (size_t)sprintf(lines + used, "{\"command\": \"echo\", \"n\": %d}\n", i);
	}
	assert_true(put(fd, lines, used));
	for (int i = 0; i < 1000; i++) {
		json_t *answer = hear(fd);

		assert_int_equal(
			json_integer_value(json_object_get(json_object_get(answer, "result"), "n")),
			i);
		json_decref(answer);
	}
	close(fd);
}

static void a1_answer_later_keeps_the_order(void **state) {
	int fd = client(*state);

	say(fd, "{\"command\": \"later\"}\n{\"command\": \"fail\"}\n{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	expect(fd, "refused");
	expect(fd, "ok");
	close(fd);
}

static void a1_line_in_single_bytes(void **state) {
	const char *text = "{\"command\": \"echo\"}\r\n\n \n{\"command\": \"echo\"}\n";
	int fd = client(*state);

	for (const char *c = text; *c != '\0'; c++) {
		assert_true(put(fd, c, 1));
	}
	expect(fd, "ok");
	expect(fd, "ok");
	close(fd);
}

static void a1_last_line_without_newline_counts(void **state) {
	int fd = client(*state);

	say(fd, "{\"command\": \"echo\"}");
	shutdown(fd, SHUT_WR);
	expect(fd, "ok");
	expect_end(fd);
}

static void a1_half_closed_client_gets_all_answers(void **state) {
	int fd = client(*state);

	say(fd, "{\"command\": \"later\"}\n{\"command\": \"big\"}\n{\"command\": \"echo\"}\n");
	shutdown(fd, SHUT_WR);
	expect(fd, "ok");
	expect(fd, "ok");
	expect(fd, "ok");
	expect_end(fd);
}

static void a1_what_is_not_a_request_is_told_so(void **state) {
	static const char *const lines[] = {"hello\n", "[]\n", "1\n", "null\n", "\"x\"\n", "{\n",
		"{}\n", "{\"command\": 1}\n", "{\"command\": null}\n", "{\"command\":\"a\"} x\n",
		"{\"command\": \"echo\", \"command\": \"echo\"}\n", "\xff\xfe{}\n",
		"{\"a\": \"\xc3\x28\"}\n", "{\"a\": \"\\ud800\"}\n", "GET / HTTP/1.1\r\n",
		"{'command': 'echo'}\n"};
	int fd = client(*state);

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		say(fd, lines[i]);
		expect(fd, "bad-request");
	}
	assert_true(put(fd, "{\"command\": \"ec\0ho\"}\n", 21));
	expect(fd, "bad-request");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	close(fd);
}

static void a1_deep_nesting_is_refused(void **state) {
	char *line = malloc(500001);
	int fd = client(*state);

	memset(line, '[', 500000);
	line[500000] = '\n';
	assert_true(put(fd, line, 500001));
	expect(fd, "bad-request");
	free(line);
	close(fd);
}

static void a2_line_of_1_mib_is_taken_and_a_longer_one_refused(void **state) {
	size_t bytes = WEIR_API_LINE_BYTES;
	char *line = malloc(bytes + 2);
	int fd = client(*state);
	int prefix = sprintf(line, "{\"command\": \"peer\", \"pad\": \"");

	memset(line + prefix, 'x', bytes - (size_t)prefix);
	memcpy(line + bytes - 2, "\"}\n", 3);
	assert_true(put(fd, line, bytes + 1));
	expect(fd, "ok");
	memcpy(line + bytes - 2, "x\"}\n", 4);
	assert_true(put(fd, line, bytes + 2));
	expect(fd, "bad-request");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	free(line);
	close(fd);
}

static void a2_endless_line_gets_one_answer_and_no_memory(void **state) {
	char *block = malloc(1 << 20);
	int fd = client(*state);

	memset(block, 'x', 1 << 20);
	for (int i = 0; i < 64; i++) {
		assert_true(put(fd, block, 1 << 20));
	}
	say(fd, "\n{\"command\": \"echo\"}\n");
	expect(fd, "bad-request");
	expect(fd, "ok");
	free(block);
	close(fd);
}

static void a2_newlines_alone_do_not_hold_up_others(void **state) {
	char *block = malloc(1 << 20);
	int fd = client(*state);

	memset(block, '\n', 1 << 20);
	for (int i = 0; i < 16; i++) {
		assert_true(put(fd, block, 1 << 20));
		expect_alive(*state);
	}
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	free(block);
	close(fd);
}

static void a3_slow_reader_does_not_hold_up_others(void **state) {
	int slow[8];

	for (int i = 0; i < 8; i++) {
		slow[i] = client(*state);
		say(slow[i], "{\"command\": \"big\"}\n");
	}
	for (int i = 0; i < 50; i++) {
		expect_alive(*state);
	}
	expect(slow[0], "ok"); // not too slow: it gets everything
	for (int i = 0; i < 8; i++) {
		close(slow[i]);
	}
	expect_alive(*state);
}

static void a3_client_that_never_reads_is_cut_off(void **state) {
	struct server *server = *state;
	int fd = client(server);
	struct timespec pause = {.tv_nsec = 50000000};
	char byte;

	say(fd, "{\"command\": \"big\"}\n");
	while (__atomic_load_n(&server->handled, __ATOMIC_RELAXED) == 0) {
		nanosleep(&pause, NULL);
	}
	assert_int_equal(weir_api_clients(server->api), 1);
	for (int i = 0; weir_api_clients(server->api) != 0; i++) {
		assert_true(i < (WEIR_API_ANSWER_MS + DEADLINE_MS) / 50);
		nanosleep(&pause, NULL);
	}
	assert_int_equal(recv(fd, &byte, 1, 0), 1); // what was sent is there, then it ends
	close(fd);
}

static void a3_too_many_clients_are_refused_while_all_are_busy(void **state) {
	int fd[WEIR_API_CLIENTS + 4];

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fd[i] = client(*state);
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
	}
	for (int i = WEIR_API_CLIENTS; i < WEIR_API_CLIENTS + 4; i++) {
		fd[i] = client(*state);
		expect(fd[i], "refused");
		expect_end(fd[i]);
	}
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
		close(fd[i]);
	}
}

static void a3_who_is_idle_makes_room_for_who_asks(void **state) {
	int fd[WEIR_API_CLIENTS], newcomer;
	struct timespec idle = {.tv_sec = WEIR_API_IDLE_MS / 1000, .tv_nsec = 100000000};

	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		fd[i] = client(*state);
		say(fd[i], "{\"command\": \"echo\"}\n");
		expect(fd[i], "ok");
	}
	nanosleep(&idle, NULL); // the time itself is what is tested
	newcomer = client(*state);
	say(newcomer, "{\"command\": \"echo\"}\n");
	expect(newcomer, "ok");
	close(newcomer);
	assert_null(hear(fd[0])); // the first to come was idle for longest
	for (int i = 0; i < WEIR_API_CLIENTS; i++) {
		close(fd[i]);
	}
}

static void a4_client_may_die_before_its_answer(void **state) {
	for (int i = 0; i < 200; i++) {
		int fd = client(*state);

		say_if_let(fd,
			i % 10 != 0 ? "{\"command\": \"later\"}\n" : "{\"command\": \"big\"}\n");
		close(fd);
	}
	expect_alive_soon(*state);
}

static void a4_client_may_die_in_the_middle_of_a_line(void **state) {
	for (int i = 0; i < 200; i++) {
		int fd = client(*state);

		say_if_let(fd, "{\"command\": \"ec");
		close(fd);
	}
	expect_alive_soon(*state);
}

static unsigned int read_count(const unsigned int *count) {
	return __atomic_load_n(count, __ATOMIC_RELAXED);
}

static void a5_list_is_complete(void **state) {
	static const struct {
		const char *request, *answer;
	} cases[] = {
		{"{\"command\": \"rows\", \"n\": 3}\n", "{\"ok\": true, \"result\": [0, 1, 2]}"},
		{"{\"command\": \"rows\", \"n\": 0}\n", "{\"ok\": true, \"result\": []}"},
		{"{\"command\": \"rows\", \"n\": 2, \"head\": {\"a\": {\"b\": 7}}}\n",
			"{\"ok\": true, \"result\": {\"a\": {\"b\": 7}, \"list\": [0, 1]}}"},
		{"{\"command\": \"rows\", \"n\": 0, \"head\": {}}\n",
			"{\"ok\": true, \"result\": {\"list\": []}}"},
	};
	struct server *server = *state;
	int fd = client(server);

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		json_t *wanted = json_loads(cases[i].answer, 0, NULL), *answer;

		say(fd, cases[i].request);
		answer = hear(fd);
		assert_true(json_equal(answer, wanted));
		json_decref(answer);
		json_decref(wanted);
	}
	say(fd, "{\"command\": \"rows\", \"n\": 1000}\n");
	json_t *answer = hear(fd), *list = json_object_get(answer, "result");

	assert_int_equal(json_array_size(list), 1000);
	for (size_t i = 0; i < 1000; i++) {
		assert_int_equal(json_integer_value(json_array_get(list, i)), i);
	}
	json_decref(answer);
	say(fd, "{\"command\": \"rows\", \"n\": 1000, \"cancel\": 500}\n");
	expect(fd, "no-dataplane");
	say(fd, "{\"command\": \"echo\"}\n");
	expect(fd, "ok");
	assert_int_equal(read_count(&server->lists_freed), 6);
	close(fd);
}

#define MANY_ROWS 1000000u

static void a5_long_list_does_not_hold_up_others(void **state) {
	struct server *server = *state;
	int fd = client(server), second = client(server);

	say(fd, "{\"command\": \"rows\", \"n\": 1000000}\n");
	say(second, "{\"command\": \"rows\", \"n\": 1000000}\n");
	while (read_count(&server->rows) == 0) {
		sched_yield();
	}
	expect_alive(server);
	assert_true(read_count(&server->rows) < 2 * MANY_ROWS);
	close(fd); // nobody waits for the first one any more
	expect(second, "ok");
	close(second);
}

static void a5_server_may_close_within_a_list(void **state) {
	struct server *server = *state;
	int fd = client(server);

	say(fd, "{\"command\": \"rows\", \"n\": 1000000}\n");
	while (read_count(&server->rows) == 0) {
		sched_yield();
	}
	close(fd); // the teardown closes the server
}

static void api_knows_its_peer(void **state) {
	int fd = client(*state);
	json_t *answer, *result;

	say(fd, "{\"command\": \"peer\"}\n");
	answer = hear(fd);
	result = json_object_get(answer, "result");
	assert_int_equal(json_integer_value(json_object_get(result, "pid")), getpid());
	assert_int_equal(json_integer_value(json_object_get(result, "uid")), geteuid());
	json_decref(answer);
	close(fd);
}

static void api_error_text_is_always_utf8(void **state) {
	int fd = client(*state);
	json_t *answer;

	say(fd, "{\"command\": \"fail\"}\n");
	answer = hear(fd);
	assert_string_equal(json_string_value(json_object_get(answer, "error")), "odd: ?(");
	assert_true(json_is_array(json_object_get(answer, "errors")));
	json_decref(answer);
	close(fd);
}

// Random bytes, seasoned with what requests are made of. Repeatable.
static void api_survives_garbage(void **state) {
	static const char *const seasoning[] = {"{", "}", "\"command\"", ":", "\"echo\"", "\n", ",",
		"[", "]", "\"", "\\u0000", "\xff", "1e999", "-", "true", "\r"};
	unsigned int seed = 20260101;

	for (int round = 0; round < 300; round++) {
		int fd = client(*state);
		char bytes[4096];
		size_t used = 0;

		while (used < sizeof(bytes) - 16) {
			if (rand_r(&seed) % 3 == 0) {
				bytes[used++] = (char)rand_r(&seed);
			} else {
				const char *piece =
					seasoning[(size_t)rand_r(&seed) %
						  (sizeof(seasoning) / sizeof(seasoning[0]))];

				memcpy(bytes + used, piece, strlen(piece));
				used += strlen(piece);
			}
		}
		put(fd, bytes, used);
		if (round % 2 == 0) {
			json_t *answer;

			shutdown(fd, SHUT_WR);
			while ((answer = hear(fd)) != NULL) {
				assert_non_null(json_object_get(answer, "ok"));
				json_decref(answer);
			}
		}
		close(fd);
	}
	expect_alive_soon(*state);
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(a_client_that_found_no_memory_is_served_later),
		T(a1_one_answer_per_line_in_order),
		T(a1_answer_later_keeps_the_order),
		T(a1_line_in_single_bytes),
		T(a1_last_line_without_newline_counts),
		T(a1_half_closed_client_gets_all_answers),
		T(a1_what_is_not_a_request_is_told_so),
		T(a1_deep_nesting_is_refused),
		T(a2_line_of_1_mib_is_taken_and_a_longer_one_refused),
		T(a2_endless_line_gets_one_answer_and_no_memory),
		T(a2_newlines_alone_do_not_hold_up_others),
		T(a3_slow_reader_does_not_hold_up_others),
		T(a3_client_that_never_reads_is_cut_off),
		T(a3_too_many_clients_are_refused_while_all_are_busy),
		T(a3_who_is_idle_makes_room_for_who_asks),
		T(a4_client_may_die_before_its_answer),
		T(a4_client_may_die_in_the_middle_of_a_line),
		T(a5_list_is_complete),
		T(a5_long_list_does_not_hold_up_others),
		T(a5_server_may_close_within_a_list),
		T(api_knows_its_peer),
		T(api_error_text_is_always_utf8),
		T(api_survives_garbage),
	};

	signal(SIGPIPE, SIG_IGN); // as the daemon does
	return cmocka_run_group_tests(tests, NULL, NULL);
}
