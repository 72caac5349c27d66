// SPDX-License-Identifier: BSD-3-Clause
//
// Tests probes of servers that reset the connection, or close it without reading the request. Data
// that was sent before the reset counts. Runs in a network namespace of this process. Needs root.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "health_agent_check.h"
#include "health_tcp.h"
#include "probe_lab.h"

#define ROUNDS 20
// In every second round the loop stalls for this time. When the loop continues, the server has
// already answered and reset the connection.
#define STALL_MS 20

#define HEAD "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 6\r\n\r\n"

struct server {
	const char *answer;
	// the server reads the request first; otherwise the request is unread when the connection
	// is closed
	bool reads;
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
	struct weir_health_stream *agent_check;
	struct weir_agent_check said = {0};
	struct weir_health_stream *tcp;
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
	return check->type == WEIR_CHECK_TCP || check->type == WEIR_CHECK_AGENT_CHECK
		       ? probe_plain(server, check, stall_ms)
		       : probe_curl("127.0.0.1", server->port, check, (unsigned int)stall_ms);
}

// load: requests per second in the report; 0 = none.
static void expect_of(const struct server *server, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail, double load) {
	unsigned int others = 0;
	char last[96] = "";

	for (int i = 0; i < ROUNDS; i++) {
		struct result result = probe(server, check, i % 2 ? STALL_MS : 0);

		if (result.outcome != outcome || strcmp(result.detail, detail) != 0 ||
			result.report.requests_per_second != load) {
			others++;
			memcpy(last, result.detail, sizeof(last));
		}
	}
	if (others > 0) {
		fail_msg("\"%s\", %s: %u of %d not \"%s\" with load %g, but \"%s\"", server->answer,
			server->reads ? "reset" : "unread", others, ROUNDS, detail, load, last);
	}
}

static void expect(const char *answer, bool reads, const struct weir_config_health_check *check,
	enum weir_probe_outcome outcome, const char *detail) {
	struct server server = start(answer, reads);

	expect_of(&server, check, outcome, detail, 0);
	stop(&server);
}

static struct weir_config_health_check http_check(const char *body) {
	struct weir_config_health_check check = {.type = WEIR_CHECK_HTTP,
		.url.status_first = 200,
		.url.status_last = 399,
		.timeout_ms = 2000,
		.url.path = "/"};

	strcpy(check.url.body, body);
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

TEST(http_answer_that_is_truncated_fails) {
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

// The handshake was complete, and a TCP check requires no more.
TEST(tcp_connection_that_is_reset_passes) {
	static const struct weir_config_health_check check = {
		.type = WEIR_CHECK_TCP, .timeout_ms = 2000};

	expect("", false, &check, WEIR_PROBE_PASSED, "connected");
}

// --- real servers ---------------------------------------------------------------------------

#define FIRST_PORT 8500
#define NGINX_PORT 8600 // nginx does not read the whole request; the check passes
#define NGINX_BAD_PORT 8601 // nginx does not read the whole request; the check fails
#define LOAD 7.0

// Flags as in reset_server.py.
enum { UNREAD = 1, TLS = 2, GRPC = 4, BAD = 8, CUT = 16, PORTS = 24 };

static void wait_for_port(unsigned int port) {
	SHELL("for i in $(seq 1000); do ss -Htln sport = :%u | grep -q . && exit;"
	      "sleep 0.01; done; exit 1",
		port);
}

static struct weir_config_health_check check_of_kind(unsigned int kind) {
	struct weir_config_health_check check = http_check("");

	check.orca = true;
	check.tls = kind & TLS;
	check.type = kind & GRPC  ? WEIR_CHECK_GRPC
		     : kind & TLS ? WEIR_CHECK_HTTPS
				  : WEIR_CHECK_HTTP;
	return check;
}

static void expect_kinds(unsigned int protocol, const char *good, const char *bad) {
	for (unsigned int kind = 0; kind < PORTS; kind++) {
		const struct weir_config_health_check check = check_of_kind(kind);
		char name[64];
		struct server server = {.answer = name,
			.reads = !(kind & UNREAD),
			.port = (uint16_t)(FIRST_PORT + kind)};

		if ((kind & (TLS | GRPC)) != protocol) {
			continue;
		}
		snprintf(name, sizeof(name), "%s%s%s", protocol & GRPC ? "gRPC" : "HTTP",
			protocol & TLS ? " over TLS" : "", kind & CUT ? ", cut off" : "");
		if (kind & CUT) {
			expect_of(
				&server, &check, WEIR_PROBE_FAILED, "connection reset by peer", 0);
		} else if (kind & BAD) {
			expect_of(&server, &check, WEIR_PROBE_FAILED, bad, LOAD);
		} else {
			expect_of(&server, &check, WEIR_PROBE_PASSED, good, LOAD);
		}
	}
}

static pid_t start_python(const char *dir) {
	char key[80], certificate[80];
	const char *words[] = {
		"/usr/bin/python3", getenv("WEIR_RESET_SERVER"), "8500", key, certificate, NULL};
	pid_t pid;

	SHELL("cd %s && openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
	      "-nodes -subj /CN=web -days 2 -keyout web.key -out web.pem 2>/dev/null",
		dir);
	snprintf(key, sizeof(key), "%s/web.key", dir);
	snprintf(certificate, sizeof(certificate), "%s/web.pem", dir);
	assert_non_null(words[1]);
	pid = watch_lab_start(words);
	for (unsigned int kind = 0; kind < PORTS; kind++) {
		wait_for_port(FIRST_PORT + kind);
	}
	return pid;
}

// Start an nginx that answers when the first line of a request is too long. It then closes the
// connection without reading the rest of the request.
static pid_t start_nginx(const char *dir) {
	char path[80];
	const char *words[] = {"nginx", "-p", dir, "-c", path, "-e", "stderr", NULL};
	FILE *file;
	pid_t pid;

	snprintf(path, sizeof(path), "%s/nginx.conf", dir);
	file = fopen(path, "w");
	assert_non_null(file);
	fprintf(file,
		"daemon off; master_process off; pid %s/nginx.pid; user root;\n"
		"events { worker_connections 64; }\n"
		"http {\n"
		"	access_log off; error_log stderr crit; lingering_close off;\n"
		"	connection_pool_size 256; client_header_buffer_size 32;\n"
		"	large_client_header_buffers 1 256;\n"
		"	server {\n"
		"		listen 127.0.0.1:%d; error_page 414 =200 /ok;\n"
		"		location = /ok { return 200 synced; }\n"
		"	}\n"
		"	server { listen 127.0.0.1:%d; }\n"
		"}\n",
		dir, NGINX_PORT, NGINX_BAD_PORT);
	fclose(file);
	pid = watch_lab_start(words);
	wait_for_port(NGINX_PORT);
	return pid;
}

struct servers {
	char dir[64];
	pid_t python, nginx;
};

static int start_servers(void **state) {
	struct servers *servers = calloc(1, sizeof(*servers));

	strcpy(servers->dir, "/tmp/weir-health-XXXXXX");
	assert_non_null(mkdtemp(servers->dir));
	servers->python = start_python(servers->dir);
	servers->nginx = start_nginx(servers->dir);
	*state = servers;
	return 0;
}

static int stop_servers(void **state) {
	struct servers *servers = *state;

	watch_lab_stop(servers->python);
	watch_lab_stop(servers->nginx);
	SHELL("rm -r %s", servers->dir);
	free(servers);
	return 0;
}

TEST_GROUP(start_servers, stop_servers);

TEST(http_server_that_resets_is_judged_by_its_answer) {
	expect_kinds(0, "HTTP 200", "HTTP 503");
}

TEST(https_server_that_resets_is_judged_by_its_answer) {
	expect_kinds(TLS, "HTTP 200", "HTTP 503");
}

// The status is in the trailers, together with the load (ORCA).
TEST(grpc_server_that_resets_is_judged_by_its_answer) {
	expect_kinds(GRPC, "SERVING", "NOT_SERVING");
}

TEST(grpc_server_over_tls_that_resets_is_judged_by_its_answer) {
	expect_kinds(GRPC | TLS, "SERVING", "NOT_SERVING");
}

TEST(nginx_that_does_not_read_the_request_is_judged_by_its_answer) {
	struct weir_config_health_check check = http_check("");
	struct server server = {.answer = "nginx", .port = NGINX_PORT};

	memset(check.url.path, 'a', 250);
	check.url.path[0] = '/';
	expect_of(&server, &check, WEIR_PROBE_PASSED, "HTTP 200", 0);
	strcpy(check.url.body, "synced");
	expect_of(&server, &check, WEIR_PROBE_PASSED, "HTTP 200", 0);
	check.url.body[0] = '\0';
	server.port = NGINX_BAD_PORT;
	expect_of(&server, &check, WEIR_PROBE_FAILED, "HTTP 414", 0);
}
