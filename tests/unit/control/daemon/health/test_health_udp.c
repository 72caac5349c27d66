// SPDX-License-Identifier: BSD-3-Clause
//
// Tests UDP probes against servers that answer, are silent, are closed, or answer from another
// port. Runs in a network namespace of this process. Needs root.
#include <netinet/in.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health_udp.h"
#include "probe_lab.h"

#define TIMEOUT_MS 150
#define HUGE 60000

struct server {
	const char *request; // a datagram with other bytes gets no answer
	const char *answer; // NULL = the server is silent
	size_t answer_bytes; // 0 = strlen(answer)
	bool from_other_port;
	pid_t pid;
	uint16_t port;
};

static void serve(int fd, const struct server *server) {
	const size_t bytes = server->answer_bytes > 0 ? server->answer_bytes
			     : server->answer != NULL ? strlen(server->answer)
						      : 0;
	const int other = socket(AF_INET6, SOCK_DGRAM, 0);
	struct sockaddr_in6 from;
	char request[512];

	for (;;) {
		socklen_t length = sizeof(from);
		ssize_t got = recvfrom(
			fd, request, sizeof(request), 0, (struct sockaddr *)&from, &length);

		if (got < 0) {
			_exit(0);
		}
		if (server->answer != NULL && (size_t)got == strlen(server->request) &&
			memcmp(request, server->request, (size_t)got) == 0) {
			(void)!sendto(server->from_other_port ? other : fd, server->answer, bytes,
				0, (struct sockaddr *)&from, length);
		}
	}
}

// The socket accepts IPv4, too.
static void start(struct server *server) {
	struct sockaddr_in6 name = {.sin6_family = AF_INET6};
	socklen_t length = sizeof(name);
	int fd = socket(AF_INET6, SOCK_DGRAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&name, &length), 0);
	server->port = ntohs(name.sin6_port);
	server->pid = fork();
	if (server->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		serve(fd, server);
	}
	close(fd);
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
	struct weir_health_datagram *udp;
	uv_loop_t loop;
	int r;

	uv_loop_init(&loop);
	r = weir_health_udp_start(&loop, &params, &udp);
	if (r) { // a probe that cannot start gets the same result as in health_check.c
		probe_done(&result, weir_probe_outcome_of(r), uv_strerror(r), NULL);
	}
	usleep(stall_ms * 1000);
	watch_lab_run(&loop, probe_has_result, &result, 5000, "a result");
	watch_lab_close(&loop);
	assert_int_equal(result.calls, 1);
	return result;
}

static struct weir_config_health_check check_for(const char *send, const char *expect) {
	struct weir_config_health_check check = {
		.type = WEIR_CHECK_UDP, .timeout_ms = TIMEOUT_MS, .match = WEIR_MATCH_PREFIX};

	strcpy(check.send, send);
	strcpy(check.expect, expect);
	return check;
}

static void expect_at(const char *address, uint16_t port,
	const struct weir_config_health_check *check, enum weir_probe_outcome outcome,
	const char *detail) {
	for (int i = 0; i < 4; i++) {
		const struct result result = probe(address, port, check, i % 2 ? 20 : 0);

		if (result.outcome != outcome || strcmp(result.detail, detail) != 0) {
			fail_msg("%s, round %d: %d \"%s\" instead of %d \"%s\"", address, i,
				result.outcome, result.detail, outcome, detail);
		}
	}
}

static void expect(struct server server, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	start(&server);
	for (int i = 0; i < 2; i++) {
		expect_at(addresses[i], server.port, check, outcome, detail);
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

TEST(udp_answer_is_compared) {
	struct weir_config_health_check check = check_for("OPTIONS", "SIP/2.0 200");
	struct server server = {.request = "OPTIONS", .answer = "SIP/2.0 200 OK\r\nVia: x"};

	expect(server, &check, WEIR_PROBE_PASSED, "answer \"SIP/2.0 200 OK\"");
	server.answer = "SIP/2.0 503 Service Unavailable";
	expect(server, &check, WEIR_PROBE_FAILED,
		"answer \"SIP/2.0 503 Service Unavailable\" instead of \"SIP/2.0 200\"");
	server.answer = "SIP"; // the next datagram does not continue this one
	expect(server, &check, WEIR_PROBE_FAILED, "answer \"SIP\" instead of \"SIP/2.0 200\"");
	check.match = WEIR_MATCH_SUBSTRING;
	server.answer = "x SIP/2.0 200";
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"x SIP/2.0 200\"");
}

TEST(udp_without_an_answer) {
	const struct weir_config_health_check strict = check_for("ping", "pong");
	const struct weir_config_health_check weak = check_for("ping", "");
	struct server server = {.request = "ping"};

	expect(server, &strict, WEIR_PROBE_FAILED, "no answer for 150 ms");
	expect(server, &weak, WEIR_PROBE_PASSED, "no ICMP error for 150 ms");
	server.answer = "pong";
	expect(server, &weak, WEIR_PROBE_PASSED, "answer of 4 bytes");
	server.from_other_port = true; // clients would not accept this answer either
	expect(server, &strict, WEIR_PROBE_FAILED, "no answer for 150 ms");
}

TEST(udp_empty_datagrams) {
	const struct weir_config_health_check check = check_for("", "pong");
	const struct weir_config_health_check weak = check_for("", "");
	struct server server = {.request = "", .answer = "pong"};

	expect(server, &check, WEIR_PROBE_PASSED, "answer \"pong\"");
	server.answer = "";
	expect(server, &check, WEIR_PROBE_FAILED, "answer \"\" instead of \"pong\"");
	expect(server, &weak, WEIR_PROBE_PASSED, "answer of 0 bytes");
}

TEST(udp_closed_port_fails) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};
	const struct weir_config_health_check strict = check_for("ping", "pong");
	const struct weir_config_health_check weak = check_for("ping", "");

	for (int i = 0; i < 2; i++) {
		uint64_t start_ns = uv_hrtime();

		expect_at(addresses[i], 9, &strict, WEIR_PROBE_FAILED, "port unreachable");
		expect_at(addresses[i], 9, &weak, WEIR_PROBE_FAILED, "port unreachable");
		assert_true((uv_hrtime() - start_ns) / 1000000 < 8 * TIMEOUT_MS);
	}
}

TEST(udp_black_hole_and_missing_route) {
	static const char *const addresses[] = {WATCH_LAB_HOLE4, WATCH_LAB_HOLE6};
	const struct weir_config_health_check check = check_for("ping", "pong");

	for (int i = 0; i < 2; i++) {
		assert_string_equal(
			probe(addresses[i], 53, &check, 0).detail, "no answer for 150 ms");
	}
	assert_string_equal(probe("10.99.0.1", 53, &check, 0).detail, "network is unreachable");
}

TEST(udp_huge_answer) {
	static char answer[HUGE];
	struct weir_config_health_check check = check_for("ping", "aaaa");
	struct server server = {.request = "ping", .answer = answer, .answer_bytes = HUGE};

	memset(answer, 'a', sizeof(answer));
	expect(server, &check, WEIR_PROBE_PASSED, "answer \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\"");
	check = check_for("ping", "");
	expect(server, &check, WEIR_PROBE_PASSED, "answer of 60000 bytes");
}

TEST(udp_passes_although_the_loop_was_busy) {
	const struct weir_config_health_check check = check_for("ping", "pong");
	struct server server = {.request = "ping", .answer = "pong"};

	start(&server);
	assert_string_equal(
		probe("127.0.0.1", server.port, &check, 3 * TIMEOUT_MS).detail, "answer \"pong\"");
	stop(&server);
}

TEST(udp_cancelled_calls_nothing) {
	const struct weir_config_health_check check = check_for("ping", "pong");
	struct result result = {0};
	struct weir_probe_params params = {.address = watch_lab_address(WATCH_LAB_HOLE4),
		.port = 53,
		.check = &check,
		.done = probe_done,
		.context = &result};
	struct weir_health_datagram *udp;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_udp_start(&loop, &params, &udp), 0);
	watch_lab_idle(&loop, 20);
	weir_health_datagram_cancel(udp);
	watch_lab_idle(&loop, 2 * TIMEOUT_MS);
	assert_int_equal(result.calls, 0);
	watch_lab_close(&loop);
}
