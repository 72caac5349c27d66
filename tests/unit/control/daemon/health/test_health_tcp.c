// SPDX-License-Identifier: BSD-3-Clause
//
// Tests TCP probes against real sockets, in a network namespace of this process. Needs root.
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health_tcp.h"
#include "probe_lab.h"

static const struct weir_config_health_check check = {.type = WEIR_CHECK_TCP, .timeout_ms = 150};

// Runs a probe. As soon as the probe has started, the loop does other work for stall_ms.
static struct result probe_stalled(const char *address, uint16_t port, unsigned int stall_ms) {
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address(address),
		.port = port,
		.check = &check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_stream *tcp;
	uv_loop_t loop;
	int r;

	uv_loop_init(&loop);
	r = weir_health_tcp_start(&loop, &params, &tcp);
	if (r) {
		probe_done(&result, weir_probe_outcome_of(r), uv_strerror(r), NULL);
	}
	usleep(stall_ms * 1000);
	watch_lab_run(&loop, probe_has_result, &result, 2000, address);
	watch_lab_close(&loop);
	assert_int_equal(result.calls, 1);
	return result;
}

static struct result probe(const char *address, uint16_t port) {
	return probe_stalled(address, port, 0);
}

static int listen_on(const char *address, uint16_t *ret_port) {
	struct weir_address parsed = watch_lab_address(address);
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};
	struct sockaddr_in in = {.sin_family = AF_INET};
	bool ipv6 = parsed.family == 6;
	struct sockaddr *name = ipv6 ? (struct sockaddr *)&in6 : (struct sockaddr *)&in;
	socklen_t bytes = ipv6 ? sizeof(in6) : sizeof(in);
	int fd = socket(name->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&in.sin_addr, parsed.bytes, 4);
	memcpy(&in6.sin6_addr, parsed.bytes, 16);
	assert_int_equal(bind(fd, name, bytes), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(getsockname(fd, name, &bytes), 0);
	*ret_port = ntohs(ipv6 ? in6.sin6_port : in.sin_port);
	return fd;
}

TEST(tcp_probe_passes_on_a_listener) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		uint16_t port;
		int fd = listen_on(addresses[i], &port);
		struct result result = probe(addresses[i], port);

		assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
		assert_string_equal(result.detail, "connected");
		close(fd);
	}
}

TEST(tcp_probe_fails_on_a_dead_port) {
	static const char *const addresses[] = {"127.0.0.1", "::1"};

	for (int i = 0; i < 2; i++) {
		struct result result = probe(addresses[i], 9);

		assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
		assert_string_equal(result.detail, "connection refused");
	}
}

TEST(tcp_probe_times_out_in_a_black_hole) {
	static const char *const addresses[] = {WATCH_LAB_HOLE4, WATCH_LAB_HOLE6};

	for (int i = 0; i < 2; i++) {
		uint64_t start = uv_hrtime();
		struct result result = probe(addresses[i], 80);
		uint64_t took_ms = (uv_hrtime() - start) / 1000000;

		assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
		assert_string_equal(result.detail, "timeout after 150 ms");
		assert_in_range(took_ms, 145, 1000);
	}
}

TEST(tcp_probe_passes_although_the_loop_was_busy) {
	struct result result;
	uint16_t port;
	int fd = listen_on("127.0.0.1", &port);

	result = probe_stalled("127.0.0.1", port, 3 * check.timeout_ms);
	assert_string_equal(result.detail, "connected");
	assert_int_equal(result.outcome, WEIR_PROBE_PASSED);
	result = probe_stalled(WATCH_LAB_HOLE4, 80, 3 * check.timeout_ms);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "timeout after 150 ms");
	close(fd);
}

TEST(tcp_probe_fails_without_a_route) {
	struct result result;

	result = probe("10.99.0.1", 80);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "network is unreachable");
	SHELL("ip route add unreachable 10.98.0.0/16");
	result = probe("10.98.0.1", 80);
	assert_int_equal(result.outcome, WEIR_PROBE_FAILED);
	assert_string_equal(result.detail, "host is unreachable");
}

TEST(tcp_probe_leaves_no_time_wait) {
	uint16_t port;
	int fd = listen_on("127.0.0.1", &port);

	for (int i = 0; i < 50; i++) {
		assert_int_equal(probe("127.0.0.1", port).outcome, WEIR_PROBE_PASSED);
	}
	close(fd);
	SHELL("! ss -Htan state time-wait | grep -q .");
}

TEST(tcp_probe_cancelled_calls_nothing) {
	struct result result = {0};
	struct weir_probe_params params = {
		.address = watch_lab_address(WATCH_LAB_HOLE4),
		.port = 80,
		.check = &check,
		.done = probe_done,
		.context = &result,
	};
	struct weir_health_stream *tcp;
	uv_loop_t loop;

	uv_loop_init(&loop);
	assert_int_equal(weir_health_tcp_start(&loop, &params, &tcp), 0);
	watch_lab_idle(&loop, 20);
	weir_health_stream_cancel(tcp);
	watch_lab_idle(&loop, 300);
	assert_int_equal(result.calls, 0);
	watch_lab_close(&loop);
}

static int enter(void **state) {
	int r = watch_lab_enter(state);

	if (!r) {
		watch_lab_make_hole();
	}
	return r;
}

TEST_GROUP(enter);
