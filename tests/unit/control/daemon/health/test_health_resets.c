// SPDX-License-Identifier: BSD-3-Clause
//
// Probes of servers that reset the connection, or close it with the request unread: what was sent
// before counts. In a network namespace of this process. Needs root.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health_agent_check.h"
#include "health_tcp.h"
#include "probe_lab.h"

#define ROUNDS 20
#define STALL_MS 20 // of the loop, in every other round: the server has answered and reset by then

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n"

struct server {
	const char *answer;
	bool reads; // the request first; else it is unread when the connection is closed
	pid_t pid;
	uint16_t port;
};

static void serve(int listener, const struct server *server) {
	struct linger linger = {.l_onoff = 1};
	char request[4096];

	for (;;) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0 || (server->reads && recv(fd, request, sizeof(request), 0) <= 0)) {
			_exit(0);
		}
		(void)!send(fd, server->answer, strlen(server->answer), MSG_NOSIGNAL);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		close(fd);
	}
}

static struct server start(const char *answer, bool reads) {
	struct server server = {.answer = answer, .reads = reads};
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 16), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
	server.port = ntohs(name.sin_port);
	server.pid = fork();
	if (server.pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener, &server);
	}
	close(listener);
	assert_true(server.pid > 0);
	return server;
}

static void stop(const struct server *server) {
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
}

static struct result probe_plain(
	const struct server *server, const struct weir_config_health_check *check, int stall_ms) {
	struct result result = {0};
	struct weir_probe_params params = {.address = watch_lab_address("127.0.0.1"),
		.port = server->port,
		.check = check,
		.done = probe_done,
		.context = &result};
	struct weir_health_agent_check *agent_check;
	struct weir_agent_check said = {0};
	struct weir_health_tcp *tcp;
	uv_loop_t loop;

	uv_loop_init(&loop);
	if (check->type == WEIR_CHECK_TCP) {
		assert_int_equal(weir_health_tcp_start(&loop, &params, &tcp), 0);
	} else {
		assert_int_equal(
			weir_health_agent_check_start(&loop, &params, &said, &agent_check), 0);
	}
	usleep((useconds_t)stall_ms * 1000);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "a result");
	watch_lab_close(&loop);
	return result;
}

static struct result probe(
	const struct server *server, const struct weir_config_health_check *check, int stall_ms) {
	return check->type == WEIR_CHECK_HTTP
		       ? probe_curl("127.0.0.1", server->port, check, (unsigned int)stall_ms)
		       : probe_plain(server, check, stall_ms);
}

static void expect(const char *answer, bool reads, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	struct server server = start(answer, reads);
	unsigned int others = 0;
	char last[96] = "";

	for (int i = 0; i < ROUNDS; i++) {
		struct result result = probe(&server, check, i % 2 ? STALL_MS : 0);

		if (result.outcome != outcome || strcmp(result.detail, detail) != 0) {
			others++;
			memcpy(last, result.detail, sizeof(last));
		}
	}
	stop(&server);
	if (others > 0) {
		fail_msg("\"%s\", %s: %u of %d not \"%s\", but \"%s\"", answer,
			reads ? "reset" : "unread", others, ROUNDS, detail, last);
	}
}

static struct weir_config_health_check http_check(const char *body) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.status_first = 200,
		.status_last = 399,
		.timeout_ms = 2000,
		.path = "/"};

	strcpy(check.body, body);
	return check;
}

TEST_GROUP(watch_lab_enter);

TEST(http_answer_counts_whatever_follows) {
	struct weir_config_health_check check = http_check("");

	for (int reads = 0; reads < 2; reads++) {
		expect(HEAD "synced", reads, &check, WEIR_PROBE_PASSED, "HTTP 200");
		expect("HTTP/1.0 503 No\r\n\r\n", reads, &check, WEIR_PROBE_FAILED, "HTTP 503");
	}
	check = http_check("synced");
	for (int reads = 0; reads < 2; reads++) {
		expect(HEAD "synced", reads, &check, WEIR_PROBE_PASSED, "HTTP 200");
	}
}

TEST(http_answer_that_is_cut_off_fails) {
	struct weir_config_health_check check = http_check("");
	static const char detail[] = "connection reset by peer";

	for (int reads = 0; reads < 2; reads++) {
		expect("", reads, &check, WEIR_PROBE_FAILED, detail);
		expect("HTTP/1.1 200 OK\r\nConte", reads, &check, WEIR_PROBE_FAILED, detail);
	}
	check = http_check("synced");
	expect(HEAD "syn", true, &check, WEIR_PROBE_FAILED, detail);
}

TEST(agent_check_line_counts_whatever_follows) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_AGENT_CHECK, .timeout_ms = 2000, .send = "hello"};

	for (int reads = 0; reads < 2; reads++) {
		expect("up 50%\n", reads, &check, WEIR_PROBE_PASSED, "reply \"up 50%\"");
		expect("up 5", reads, &check, WEIR_PROBE_FAILED, "connection reset by peer");
	}
}

// The handshake was complete, which is all that this check asks for.
TEST(tcp_connection_that_is_reset_was_made) {
	static const struct weir_config_health_check check = {
		.type = WEIR_CHECK_TCP, .timeout_ms = 2000};

	expect("", false, &check, WEIR_PROBE_PASSED, "connected");
}
