// SPDX-License-Identifier: BSD-3-Clause
//
// Tests TCP probes that send and expect bytes, against servers that answer, are silent, answer one
// byte at a time, reset the connection, or send without end. Runs in a network namespace of this
// process. Needs root.
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health_exchange.h"
#include "probe_lab.h"

#define TIMEOUT_MS 300 // of probes that are expected to time out
#define PATIENT_MS 4000
#define MOST 1024 // maximum number of bytes of an answer of the server

// What the server does with each connection, in this order.
struct server {
	const char *request; // what the server reads first; NULL = the server speaks first
	const char *answer;
	size_t answer_bytes; // 0 = strlen(answer)
	unsigned int pause_ms; // pause after each byte; 0 = the answer is sent at once
	enum { KEEP, CLOSE, RESET, FLOOD } then;
	pid_t pid;
	uint16_t port;
};

static void answer(const struct server *server, int fd) {
	const size_t bytes =
		server->answer_bytes > 0 ? server->answer_bytes : strlen(server->answer);
	const size_t part = server->pause_ms > 0 ? 1 : bytes;

	for (size_t at = 0; at < bytes; at += part) {
		if (send(fd, server->answer + at, part, MSG_NOSIGNAL) < 0) {
			return;
		}
		usleep(server->pause_ms * 1000);
	}
}

static void flood(int fd) {
	char text[4096];

	memset(text, 'x', sizeof(text));
	while (send(fd, text, sizeof(text), MSG_NOSIGNAL) > 0) {
	}
}

static void serve(int listener, const struct server *server) {
	const struct linger linger = {.l_onoff = 1};
	char request[MOST];

	for (;;) {
		int fd = accept(listener, NULL, NULL);
		size_t wanted = server->request != NULL ? strlen(server->request) : 0;

		if (fd < 0) {
			_exit(0);
		}
		if (wanted > 0 && (recv(fd, request, wanted, MSG_WAITALL) != (ssize_t)wanted ||
					  memcmp(request, server->request, wanted) != 0)) {
			close(fd);
			continue;
		}
		answer(server, fd);
		if (server->then == FLOOD) {
			flood(fd);
		}
		while (server->then == KEEP && recv(fd, request, sizeof(request), 0) > 0) {
		} // until the probe resets the connection
		if (server->then == RESET) {
			setsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
		}
		close(fd);
	}
}

static void start(struct server *server) {
	struct sockaddr_in name = {.sin_family = AF_INET};
	socklen_t length = sizeof(name);
	int listener = socket(AF_INET, SOCK_STREAM, 0);

	name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(listener, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(listen(listener, 16), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&name, &length), 0);
	server->port = ntohs(name.sin_port);
	server->pid = fork();
	if (server->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(listener, server);
	}
	close(listener);
	assert_true(server->pid > 0);
}

static void stop(const struct server *server) {
	kill(server->pid, SIGKILL);
	waitpid(server->pid, NULL, 0);
}

// Runs a probe. When it has started, the loop does other work for stall_ms.
static struct result probe(const char *address, uint16_t port,
	const struct weir_config_health_check *check, unsigned int stall_ms) {
	struct result result = {0};
	struct weir_probe_params params = {.address = watch_lab_address(address),
		.port = port,
		.check = check,
		.done = probe_done,
		.context = &result};
	struct weir_health_stream *exchange;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_exchange_start(&loop, &params, &exchange), 0);
	usleep(stall_ms * 1000);
	watch_lab_run(&loop, probe_has_result, &result, 10000, "a result");
	watch_lab_close(&loop);
	assert_int_equal(result.calls, 1);
	return result;
}

static struct weir_config_health_check check_for(const char *send, const char *expect) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_TCP, .timeout_ms = PATIENT_MS, .match = WEIR_MATCH_PREFIX};

	strcpy(check.send, send);
	strcpy(check.expect, expect);
	return check;
}

// Runs several probes: with every second one, the loop does other work first, so that the server
// has already answered, and closed or reset the connection.
static void expect(struct server server, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	start(&server);
	for (int i = 0; i < 10; i++) {
		const struct result result = probe("127.0.0.1", server.port, check, i % 2 ? 20 : 0);

		if (result.outcome != outcome || strcmp(result.detail, detail) != 0) {
			fail_msg("\"%s\", round %d: %d \"%s\" instead of %d \"%s\"", server.answer,
				i, result.outcome, result.detail, outcome, detail);
		}
	}
	stop(&server);
}

static int enter(void **state) {
	int r = watch_lab_enter(state);

	if (!r) {
		watch_lab_make_hole();
	}
	return r;
}

TEST_GROUP(enter);

TEST(exchange_server_that_speaks_first) {
	const struct weir_config_health_check check = check_for("", "220");
	const struct server good = {.answer = "220 mx.example ESMTP\r\n"};
	const struct server busy = {.answer = "421 too many connections\r\n"};

	expect(good, &check, WEIR_PROBE_PASSED, "answer \"220 mx.example ESMTP\"");
	expect(busy, &check, WEIR_PROBE_FAILED,
		"answer \"421 too many connections\" instead of \"220\"");
}

TEST(exchange_request_and_answer) {
	const struct weir_config_health_check check = check_for("PING\r\n", "+PONG");
	struct server server = {.request = "PING\r\n", .answer = "+PONG\r\n"};

	expect(server, &check, WEIR_PROBE_PASSED, "answer \"+PONG\"");
	server.answer = "-LOADING Redis is loading the dataset in memory\r\n";
	expect(server, &check, WEIR_PROBE_FAILED,
		"answer \"-LOADING Redis is loading the da\" instead of \"+PONG\"");
	server.answer = "?\x80\x01\n";
	expect(server, &check, WEIR_PROBE_FAILED, "answer \"???\" instead of \"+PONG\"");
}

// The kernel reports the reset although the answer can still be read.
TEST(exchange_answer_counts_whatever_follows) {
	struct weir_config_health_check check = check_for("PING\r\n", "+PONG");
	struct server server = {.request = "PING\r\n", .answer = "+PONG\r\n", .then = RESET};

	expect(server, &check, WEIR_PROBE_PASSED, "answer \"+PONG\"");
	server.then = CLOSE;
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"+PONG\"");
	check.match = WEIR_MATCH_SUBSTRING;
	server.then = RESET;
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"+PONG\"");
	server.request = NULL; // the request is not read, so close() also resets the connection
	server.then = CLOSE;
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"+PONG\"");
}

TEST(exchange_answer_that_is_cut_off) {
	const struct weir_config_health_check check = check_for("", "220");
	struct server server = {.answer = "22", .then = CLOSE};

	expect(server, &check, WEIR_PROBE_FAILED, "answer \"22\" instead of \"220\"");
	server.then = RESET;
	expect(server, &check, WEIR_PROBE_FAILED, "connection reset by peer");
	server.answer = "";
	expect(server, &check, WEIR_PROBE_FAILED, "connection reset by peer");
	server.then = CLOSE;
	expect(server, &check, WEIR_PROBE_FAILED, "connection closed without an answer");
}

TEST(exchange_of_single_bytes) {
	struct weir_config_health_check check = check_for("", "220");
	struct server server = {.answer = "220 slow", .pause_ms = 5};

	start(&server);
	assert_int_equal(probe("127.0.0.1", server.port, &check, 0).outcome, WEIR_PROBE_PASSED);
	stop(&server);
	check.timeout_ms = TIMEOUT_MS;
	server.pause_ms = 2 * TIMEOUT_MS;
	start(&server);
	assert_string_equal(probe("127.0.0.1", server.port, &check, 0).detail,
		"answer \"2\" instead of \"220\", timeout");
	stop(&server);
}

TEST(exchange_with_a_silent_server_times_out) {
	struct weir_config_health_check check = check_for("", "220");
	struct server server = {.answer = ""};
	uint64_t start_ns = uv_hrtime();

	check.timeout_ms = TIMEOUT_MS;
	start(&server);
	assert_string_equal(probe("127.0.0.1", server.port, &check, 0).detail,
		"connected, no answer for 300 ms");
	assert_in_range((uv_hrtime() - start_ns) / 1000000, TIMEOUT_MS - 5, PATIENT_MS);
	stop(&server);
	assert_string_equal(probe(WATCH_LAB_HOLE4, 80, &check, 0).detail, "timeout after 300 ms");
	assert_string_equal(probe("127.0.0.1", 9, &check, 0).detail, "connection refused");
	assert_string_equal(probe("::1", 9, &check, 0).detail, "connection refused");
}

TEST(exchange_finds_a_substring) {
	struct weir_config_health_check check = check_for("INFO replication\r\n", "role:master");
	struct server server = {.request = "INFO replication\r\n",
		.answer = "$25\r\n# Replication\r\nrole:master\r\n"};

	expect(server, &check, WEIR_PROBE_FAILED, "answer \"$25\" instead of \"role:master\"");
	check.match = WEIR_MATCH_SUBSTRING;
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"$25\"");
	server.answer = "$24\r\n# Replication\r\nrole:slave\r\n";
	server.then = CLOSE;
	expect(server, &check, WEIR_PROBE_FAILED, "answer \"$24\" without \"role:master\"");
	server.then = KEEP;
	check.timeout_ms = TIMEOUT_MS;
	start(&server);
	assert_string_equal(probe("127.0.0.1", server.port, &check, 0).detail,
		"answer \"$24\" without \"role:master\", timeout");
	stop(&server);
}

TEST(exchange_reads_a_bounded_part_of_an_endless_answer) {
	struct weir_config_health_check check = check_for("", "role:master");
	const struct server server = {.answer = "x", .then = FLOOD};

	check.match = WEIR_MATCH_SUBSTRING;
	expect(server, &check, WEIR_PROBE_FAILED,
		"answer \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\" without \"role:master\" in 64 KiB");
}

// A client of PostgreSQL asks for TLS with these eight bytes; a MySQL server greets with its
// protocol version after a header with a zero byte.
TEST(exchange_of_bytes_that_are_no_text) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_TCP,
		.timeout_ms = PATIENT_MS,
		.expect_hex = {.count = 2, .byte = {0x00, 0x0a}},
		.match = WEIR_MATCH_SUBSTRING};
	struct server server = {.answer = "\x4a\0\0\0\x0a"
					  "8.0",
		.answer_bytes = 8};

	expect(server, &check, WEIR_PROBE_PASSED, "answer 4a0000000a382e30");
	check.match = WEIR_MATCH_PREFIX;
	expect(server, &check, WEIR_PROBE_FAILED, "answer 4a0000000a382e30 instead of 000a");
}

TEST(exchange_sends_bytes_that_are_no_text) {
	static const struct weir_config_health_check check = {.type = WEIR_CHECK_TCP,
		.timeout_ms = PATIENT_MS,
		.send_hex = {.count = 4, .byte = {0xff, 'a', 0x80, '\n'}},
		.expect = "N"};
	const struct server server = {.request = "\xff"
						 "a\x80\n",
		.answer = "N"};

	expect(server, &check, WEIR_PROBE_PASSED, "answer \"N\"");
}

TEST(exchange_cancelled_calls_nothing) {
	struct weir_config_health_check check = check_for("PING\r\n", "+PONG");
	struct server server = {.answer = ""};
	struct result result = {0};
	struct weir_probe_params params = {.address = watch_lab_address("127.0.0.1"),
		.check = &check,
		.done = probe_done,
		.context = &result};
	struct weir_health_stream *exchange;
	uv_loop_t loop;

	check.timeout_ms = TIMEOUT_MS;
	start(&server);
	params.port = server.port;
	uv_loop_init(&loop);
	for (unsigned int ms = 0; ms < 40; ms += 20) { // before and after the connection
		assert_int_equal(weir_health_exchange_start(&loop, &params, &exchange), 0);
		watch_lab_idle(&loop, ms);
		weir_health_stream_cancel(exchange);
		watch_lab_idle(&loop, TIMEOUT_MS + 100);
	}
	assert_int_equal(result.calls, 0);
	watch_lab_close(&loop);
	stop(&server);
}
