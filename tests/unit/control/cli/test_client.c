// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "client.h"
#include "server.h"

#define TIMEOUT_MS 5000 // long enough for a loaded machine
#define SHORT_MS 150

static int64_t now_ms(void) {
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// Connect and send one request. *ret_answer is set only on success.
static int ask(const struct server *server, int timeout_ms, json_t **ret_answer, char why[256]) {
	json_t *request = json_pack("{s:s}", "command", "version");
	struct weir_client *client;
	int r = weir_client_connect(server_folder(server), timeout_ms, &client, why, 256);

	if (r == 0) {
		r = weir_client_call(client, request, ret_answer, why, 256);
		weir_client_free(client);
	}
	json_decref(request);
	return r;
}

TEST(call_gets_its_answer) {
	static const struct server_answer answers[] = {
		{"version", "{\"ok\": true, \"result\": {\"version\": \"9\"}}"}, {0}};
	static const enum server_mode modes[] = {SERVER_ANSWER, SERVER_ANSWER_BYTES};

	for (size_t i = 0; i < 2; i++) {
		struct server *server = server_start(modes[i], answers);
		json_t *answer;
		char why[256];

		assert_int_equal(ask(server, TIMEOUT_MS, &answer, why), 0);
		assert_string_equal(server_request(server), JSON({"command":"version"}));
		assert_true(json_is_true(json_object_get(answer, "ok")));
		json_decref(answer);
		server_stop(server);
	}
}

TEST(connection_carries_many_calls) {
	static const struct server_answer answers[] = {
		{"version", "{\"ok\": true, \"result\": 1}\n{\"ok\": true, \"result\": 2}\n"
			    "{\"ok\": true, \"result\": 3}"},
		{0}};
	struct server *server = server_start(SERVER_ANSWER, answers);
	json_t *request = json_pack("{s:s}", "command", "version");
	struct weir_client *client;
	char why[256];

	assert_int_equal(
		weir_client_connect(server_folder(server), TIMEOUT_MS, &client, why, 256), 0);
	for (int i = 1; i <= 3; i++) {
		json_t *answer;

		assert_int_equal(weir_client_call(client, request, &answer, why, 256), 0);
		assert_int_equal(json_integer_value(json_object_get(answer, "result")), i);
		json_decref(answer);
	}
	weir_client_free(client);
	json_decref(request);
	server_stop(server);
}

TEST(long_answers_are_received_whole) {
	size_t bytes = 3 << 20;
	char *text = malloc(bytes + 64);
	struct server_answer answers[] = {{"version", text}, {0}};
	struct server *server;
	json_t *answer;
	char why[256];

	assert_non_null(text);
	strcpy(text, "{\"ok\": true, \"result\": \"");
	memset(text + strlen(text), 'x', bytes - strlen(text));
	strcpy(text + bytes, "\"}");
	server = server_start(SERVER_ANSWER, answers);
	assert_int_equal(ask(server, TIMEOUT_MS, &answer, why), 0);
	assert_int_equal(json_string_length(json_object_get(answer, "result")), bytes - 24);
	json_decref(answer);
	server_stop(server);
	free(text);
}

TEST(invalid_answers_are_refused) {
	static const char *const bad[] = {"", "hello", "[]", "{}", "{\"ok\": 1}", "{\"ok\": true",
		"{\"ok\": true} {\"ok\": true}", "{\"ok\": true, \"ok\": true}", "\x1b[2J",
		"{\"ok\": true, \"result\": \"\xff\"}"};
	json_t *answer = (void *)&answer;
	char why[256];

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		const struct server_answer answers[] = {{"*", bad[i]}, {0}};
		struct server *server = server_start(SERVER_ANSWER, answers);

		assert_int_equal(ask(server, TIMEOUT_MS, &answer, why), -EPROTO);
		assert_ptr_equal(answer, &answer);
		assert_non_null(strstr(why, "invalid reply"));
		server_stop(server);
	}
}

TEST(hanging_daemon_times_out) {
	struct server *server = server_start(SERVER_HANG, NULL);
	int64_t start = now_ms();
	json_t *answer;
	char why[256];

	assert_int_equal(ask(server, SHORT_MS, &answer, why), -ETIMEDOUT);
	assert_true(now_ms() - start >= SHORT_MS);
	assert_non_null(strstr(why, "no reply from weir-control within 150 ms"));
	server_stop(server);
}

// If the daemon never accepts connections, its backlog becomes full. The next connection must then
// time out.
TEST(full_backlog_times_out) {
	struct server *server = server_start(SERVER_DEAF, NULL);
	struct weir_client *client[64];
	int r = 0, connected = 0;
	char why[256];

	while (r == 0 && connected < 64) {
		r = weir_client_connect(
			server_folder(server), SHORT_MS, &client[connected], why, 256);
		connected += r == 0;
	}
	assert_int_equal(r, -ETIMEDOUT);
	assert_non_null(strstr(why, "did not accept the connection"));
	while (connected > 0) {
		weir_client_free(client[--connected]);
	}
	server_stop(server);
}

TEST(answer_without_reading_the_request_is_accepted) {
	static const struct server_answer answers[] = {
		{"*", "{\"ok\": false, \"code\": \"busy\", \"error\": \"too many connections\"}"},
		{0}};
	struct server *server = server_start(SERVER_UNREAD, answers);
	json_t *request = json_pack("{s:s}", "command", "version");
	struct weir_client *client;
	json_t *answer = NULL;
	char why[256];

	assert_int_equal(
		weir_client_connect(server_folder(server), TIMEOUT_MS, &client, why, 256), 0);
	server_wait_closed(server); // the connection is closed, so sending fails
	assert_int_equal(weir_client_call(client, request, &answer, why, 256), 0);
	assert_string_equal(json_string_value(json_object_get(answer, "code")), "busy");
	json_decref(answer);
	assert_int_equal(weir_client_call(client, request, &answer, why, 256), -ECONNRESET);
	weir_client_free(client);
	json_decref(request);
	server_stop(server);
}

TEST(exit_of_the_daemon_is_detected) {
	struct server *server = server_start(SERVER_CLOSE, NULL);
	json_t *answer;
	char why[256];

	assert_int_equal(ask(server, TIMEOUT_MS, &answer, why), -ECONNRESET);
	assert_non_null(strstr(why, "closed the connection"));
	server_stop(server);
}

TEST(missing_socket_and_dead_socket) {
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	char folder[] = "/tmp/weirctl-test-XXXXXX", control[64], why[256];
	struct weir_client *client = (void *)&client;
	int64_t start = now_ms();
	int fd;

	assert_non_null(mkdtemp(folder));
	assert_int_equal(weir_client_connect(folder, TIMEOUT_MS, &client, why, 256), -ENOENT);
	assert_non_null(strstr(why, "weir-control is not running (no /tmp/weirctl-test-"));
	assert_non_null(
		strstr(why, "start it with \"weir-control --config FILE --data-path-checks"));
	// The socket of a daemon that was killed still exists.
	snprintf(control, sizeof(control), "%s/control", folder);
	assert_int_equal(mkdir(control, 0700), 0);
	snprintf(address.sun_path, sizeof(address.sun_path), "%s/control.sock", control);
	fd = socket(AF_UNIX, SOCK_STREAM, 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(address)), 0);
	close(fd);
	assert_int_equal(weir_client_connect(folder, TIMEOUT_MS, &client, why, 256), -ECONNREFUSED);
	assert_non_null(strstr(why, "refuses connections"));
	assert_true(now_ms() - start < TIMEOUT_MS);
	assert_ptr_equal(client, &client);
	unlink(address.sun_path);
	rmdir(control);
	rmdir(folder);
}

TEST(long_run_dir_is_refused) {
	struct weir_client *client;
	char folder[200], why[256];

	memset(folder, 'x', sizeof(folder) - 1);
	folder[sizeof(folder) - 1] = '\0';
	assert_int_equal(weir_client_connect(folder, 10, &client, why, sizeof(why)), -ENAMETOOLONG);
	// the long path is shortened, and the reason follows it
	assert_non_null(strstr(why, "..."));
	assert_non_null(strstr(why, strerror(ENAMETOOLONG)));
	weir_client_free(NULL);
}

TEST(odd_run_dir_is_printed_safely) {
	struct weir_client *client;
	char why[256];

	assert_int_equal(
		weir_client_connect("/nowhere/\033[31m", 10, &client, why, sizeof(why)), -ENOENT);
	assert_non_null(strstr(why, "no /nowhere/\\x1b[31m/control"));
	assert_null(strchr(why, '\033'));
}

TEST(long_request_is_refused) {
	static char text[WEIR_CLIENT_REQUEST_MAX];
	struct server *server = server_start(SERVER_HANG, NULL);
	struct weir_client *client;
	json_t *request, *answer;
	char why[256];

	memset(text, 'x', sizeof(text) - 1);
	request = json_pack("{s:s}", "command", text);
	assert_int_equal(
		weir_client_connect(server_folder(server), TIMEOUT_MS, &client, why, 256), 0);
	assert_int_equal(weir_client_call(client, request, &answer, why, 256), -EMSGSIZE);
	assert_string_equal(why, "the request is longer than 32 KiB: use a shorter name");
	json_decref(request);
	weir_client_free(client);
	server_stop(server);
}
