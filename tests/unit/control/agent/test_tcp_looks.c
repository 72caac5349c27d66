// SPDX-License-Identifier: BSD-3-Clause
//
// Tests of reading TCP statistics from real sockets, between two addresses in a separate network
// namespace. Needs root.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "own_network.h"
#include "tcp_looks.h"
#include "test.h"

#define PORT 8080
#define PAIRS_MOST 400
#define WAIT_MS 20000

struct lab {
	uv_loop_t loop;
	uv_timer_t patience;
	struct weir_log log;
	unsigned int lost;
	int log_pipe[2];
	struct weir_tcp_looks looks;
	int server, server6;
	int sockets[2 * PAIRS_MOST];
	uint32_t socket_count;
};

static const uint16_t ports[] = {PORT};

static int enter(void **state) {
	return own_network_enter(state) < 0 ||
			       system("ip addr add 10.0.0.1/32 dev lo; "
				      "ip addr add 10.0.0.2/32 dev lo; "
				      "ip addr add 2001:db8::1/128 dev lo nodad; "
				      "ip addr add 2001:db8::2/128 dev lo nodad") != 0
		       ? -1
		       : 0;
}

static void put_address(int family, const char *text, uint16_t port, struct sockaddr_storage *ret) {
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};

	if (family == AF_INET) {
		inet_pton(family, text, &in.sin_addr);
		memcpy(ret, &in, sizeof(in));
	} else {
		inet_pton(family, text, &in6.sin6_addr);
		memcpy(ret, &in6, sizeof(in6));
	}
}

static int bind_to(int family, const char *address, uint16_t port) {
	struct sockaddr_storage at = {0};
	int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	put_address(family, address, port, &at);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_return_code(bind(fd, (const struct sockaddr *)&at, sizeof(at)), errno);
	return fd;
}

static void connect_pair(struct lab *lab, int family) {
	struct sockaddr_storage to = {0};
	int client = bind_to(family, family == AF_INET ? "10.0.0.2" : "2001:db8::2", 0);

	put_address(family, family == AF_INET ? "10.0.0.1" : "2001:db8::1", PORT, &to);
	assert_return_code(connect(client, (const struct sockaddr *)&to, sizeof(to)), errno);
	lab->sockets[lab->socket_count++] = client;
	lab->sockets[lab->socket_count++] =
		accept(family == AF_INET ? lab->server : lab->server6, NULL, NULL);
	assert_return_code(lab->sockets[lab->socket_count - 1], errno);
}

static void start(struct lab *lab, uint32_t most) {
	const struct weir_tcp_looks_params params = {
		.log = &lab->log, .ports = ports, .port_count = 1, .most = most};

	assert_int_equal(weir_tcp_looks_start(&lab->loop, &params, &lab->looks), 0);
	weir_tcp_looks_want(&lab->looks, true);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));

	uv_loop_init(&lab->loop);
	uv_timer_init(&lab->loop, &lab->patience);
	lab->patience.data = lab;
	assert_return_code(pipe2(lab->log_pipe, O_NONBLOCK | O_CLOEXEC), errno);
	lab->log = (struct weir_log){
		.fd = lab->log_pipe[1], .level = WEIR_LOG_INFO, .lost = &lab->lost};
	lab->server = bind_to(AF_INET, "10.0.0.1", PORT);
	lab->server6 = bind_to(AF_INET6, "2001:db8::1", PORT);
	assert_return_code(listen(lab->server, 64), errno);
	assert_return_code(listen(lab->server6, 64), errno);
	*state = lab;
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_tcp_looks_stop(&lab->looks);
	uv_close((uv_handle_t *)&lab->patience, NULL);
	uv_run(&lab->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&lab->loop), 0);
	for (uint32_t i = 0; i < lab->socket_count; i++) {
		close(lab->sockets[i]);
	}
	close(lab->server);
	close(lab->server6);
	close(lab->log_pipe[0]);
	close(lab->log_pipe[1]);
	free(lab);
	return 0;
}

TEST_GROUP(enter);
TEST_EACH(setup, teardown);

static void on_patience(uv_timer_t *timer) {
	(void)timer;
	fail_msg("no result in time");
}

static void run_until(struct lab *lab, uint64_t looks) {
	uv_timer_start(&lab->patience, on_patience, WAIT_MS, 0);
	while (lab->looks.looks < looks) {
		uv_run(&lab->loop, UV_RUN_ONCE);
	}
	uv_timer_stop(&lab->patience);
}

TEST(looks_see_the_servers_end_of_each_connection) {
	struct lab *lab = *state;
	struct weir_agent_tcp tcp = {0};

	for (uint32_t i = 0; i < 200; i++) {
		connect_pair(lab, AF_INET);
	}
	connect_pair(lab, AF_INET6);
	start(lab, 0);
	assert_false(weir_tcp_looks_fill(&lab->looks, &tcp));
	run_until(lab, 1);
	assert_int_equal(write(lab->sockets[1], "hello", 5), 5);
	assert_int_equal(write(lab->sockets[0], "from the client", 15), 15);
	run_until(lab, 2);
	assert_true(weir_tcp_looks_fill(&lab->looks, &tcp));
	assert_int_equal(tcp.ipv4.connections, 200);
	assert_int_equal(tcp.ipv6.connections, 1);
	assert_int_equal(tcp.ipv4.sent_bytes, 5);
	assert_int_equal(tcp.ipv4.segments, 1);
	assert_int_equal(tcp.partial, 0);
	assert_true(tcp.age_ms < WAIT_MS);
}

TEST(looks_at_too_many_connections_are_cut_and_the_other_family_is_seen) {
	struct lab *lab = *state;
	struct weir_agent_tcp tcp = {0};

	for (uint32_t i = 0; i < PAIRS_MOST - 1; i++) {
		connect_pair(lab, AF_INET);
	}
	connect_pair(lab, AF_INET6);
	start(lab, 50);
	run_until(lab, 2);
	assert_true(weir_tcp_looks_fill(&lab->looks, &tcp));
	assert_int_equal(tcp.partial, 1);
	assert_in_range(tcp.ipv4.connections, 50, 200); // one read returns up to 100 connections
	assert_int_equal(tcp.ipv6.connections, 1);
}

TEST(looks_go_on_after_an_error_that_is_logged_once) {
	struct lab *lab = *state;
	struct weir_agent_tcp tcp = {0};
	struct rlimit before, none;
	json_t *status;
	char text[1024];
	ssize_t n;

	connect_pair(lab, AF_INET);
	getrlimit(RLIMIT_NOFILE, &before);
	none = before;
	start(lab, 0);
	// the limit is the lowest free descriptor, so no descriptor can be opened
	none.rlim_cur = (rlim_t)dup(lab->server);
	close((int)none.rlim_cur);
	setrlimit(RLIMIT_NOFILE, &none);
	uv_timer_start(&lab->patience, on_patience, WAIT_MS, 0);
	// There is at most one reading per second
	for (uint64_t began_ms = 0, tries = 0; tries < 2;) {
		uv_run(&lab->loop, UV_RUN_ONCE);
		tries += lab->looks.began_ms != began_ms;
		began_ms = lab->looks.began_ms;
	}
	setrlimit(RLIMIT_NOFILE, &before);
	status = weir_tcp_looks_status(&lab->looks);
	assert_string_equal(
		json_string_value(json_object_get(status, "problem")), "Too many open files");
	json_decref(status);
	assert_false(weir_tcp_looks_fill(&lab->looks, &tcp));
	n = read(lab->log_pipe[0], text, sizeof(text) - 1);
	assert_true(n > 0);
	text[n] = '\0';
	assert_non_null(strstr(text, "cannot list connections: Too many open files"));
	assert_null(strchr(strchr(text, '\n') + 1, '\n'));
	run_until(lab, 1);
	assert_true(weir_tcp_looks_fill(&lab->looks, &tcp));
	assert_int_equal(tcp.ipv4.connections, 1);
	weir_tcp_looks_want(&lab->looks, false);
	assert_null(weir_tcp_looks_status(&lab->looks));
	assert_false(weir_tcp_looks_fill(&lab->looks, &tcp));
}

TEST(looks_need_a_port) {
	struct lab *lab = *state;
	const struct weir_tcp_looks_params params = {.log = &lab->log};

	assert_int_equal(weir_tcp_looks_start(&lab->loop, &params, &lab->looks), 0);
	weir_tcp_looks_want(&lab->looks, true);
	assert_false(uv_is_active((const uv_handle_t *)&lab->looks.timer));
	assert_null(weir_tcp_looks_status(&lab->looks));
}
