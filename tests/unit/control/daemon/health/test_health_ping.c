// SPDX-License-Identifier: BSD-3-Clause
//
// Tests ping probes with ping sockets and raw sockets, in a network namespace of this process.
// Needs root.
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "health_ping.h"
#include "probe_lab.h"

#define TIMEOUT_MS 150
#define MANY 2000 // more replies than the default receive buffer has room for
#define DEAD 1500 // requests to dead hosts: more than the default send buffer has room for

struct lab {
	uv_loop_t loop;
	struct weir_health_pings *pings;
	int fd; // the socket for IPv4
	struct weir_config_health_check check;
	struct result result;
};

static int enter(void **state) {
	int r = watch_lab_enter(state);

	if (!r) {
		watch_lab_make_hole();
		SHELL("ip link add dead type veth peer name grave && ip link set dead up &&"
		      "ip link set grave up && ip addr add 10.2.0.1/16 dev dead &&"
		      "ip addr add 2001:db8:2::1/64 dev dead nodad");
	}
	return r;
}

// A new network namespace allows ping sockets to no group. raw: expected kind of sockets.
static struct lab *make(bool raw) {
	struct lab *lab = calloc(1, sizeof(*lab));
	struct weir_ping_sockets sockets;

	SHELL("sysctl -qw net.ipv4.ping_group_range='%s'", raw ? "1 0" : "0 0");
	uv_loop_init(&lab->loop);
	assert_int_equal(weir_ping_sockets_open(&sockets), 0);
	assert_int_equal(sockets.ipv4.raw, raw);
	assert_int_equal(sockets.ipv6.raw, raw);
	assert_true(sockets.ipv4.fd >= 0 && sockets.ipv6.fd >= 0);
	lab->fd = sockets.ipv4.fd;
	assert_int_equal(weir_health_pings_create(&lab->loop, &sockets, &lab->pings), 0);
	assert_int_equal(sockets.ipv4.fd, -1);
	lab->check = (struct weir_config_health_check){
		.type = WEIR_CHECK_PING, .timeout_ms = TIMEOUT_MS};
	return lab;
}

static int setup_raw(void **state) {
	*state = make(true);
	return 0;
}

static int setup_ping(void **state) {
	*state = make(false);
	return 0;
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_health_pings_free(lab->pings);
	watch_lab_close(&lab->loop);
	free(lab);
	return 0;
}

static int start(struct lab *lab, struct weir_health_pings *pings, const char *address,
	struct result *result, struct weir_health_ping **ret) {
	struct weir_probe_params params = {.address = watch_lab_address(address),
		.check = &lab->check,
		.done = probe_done,
		.context = result};

	return weir_health_ping_start(&lab->loop, pings, &params, ret);
}

static void expect(struct lab *lab, struct weir_health_pings *pings, const char *address,
	enum weir_probe_outcome outcome, const char *detail) {
	struct weir_health_ping *ping;

	lab->result = (struct result){0};
	assert_int_equal(start(lab, pings, address, &lab->result, &ping), 0);
	assert_int_equal(lab->result.calls, 0);
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, 3000, address);
	assert_string_equal(lab->result.detail, detail);
	assert_int_equal(lab->result.outcome, outcome);
	assert_int_equal(lab->result.calls, 1);
}

static void expect_replies(struct lab *lab) {
	expect(lab, lab->pings, "127.0.0.1", WEIR_PROBE_PASSED, "echo reply");
	expect(lab, lab->pings, "::1", WEIR_PROBE_PASSED, "echo reply");
	expect(lab, lab->pings, WATCH_LAB_HOLE4, WEIR_PROBE_FAILED, "no echo reply for 150 ms");
	expect(lab, lab->pings, WATCH_LAB_HOLE6, WEIR_PROBE_FAILED, "no echo reply for 150 ms");
	expect(lab, lab->pings, "127.0.0.1", WEIR_PROBE_PASSED, "echo reply");
}

TEST_GROUP(enter);

TEST(ping_with_raw_sockets, setup_raw, teardown) {
	expect_replies(*state);
}

TEST(ping_with_ping_sockets, setup_ping, teardown) {
	expect_replies(*state);
}

TEST(ping_without_sockets_has_no_result, setup_raw, teardown) {
	static const char detail[] =
		"no result: no socket for ICMP echo: see net.ipv4.ping_group_range";

	expect(*state, NULL, "127.0.0.1", WEIR_PROBE_UNKNOWN, detail);
	expect(*state, NULL, "::1", WEIR_PROBE_UNKNOWN, detail);
}

TEST(ping_without_a_route, setup_raw, teardown) {
	struct weir_health_ping *ping;
	struct lab *lab = *state;

	assert_int_equal(start(lab, lab->pings, "10.99.0.1", &lab->result, &ping), UV_ENETUNREACH);
}

// Others can send replies with any sequence number, and from the address, but without the random
// bytes of the request.
TEST(ping_ignores_forged_replies, setup_raw, teardown) {
	struct lab *lab = *state;
	struct sockaddr_in to = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);
	struct weir_health_ping *ping;

	SHELL("sysctl -qw net.ipv4.icmp_echo_ignore_all=1");
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(start(lab, lab->pings, "127.0.0.1", &lab->result, &ping), 0);
	for (uint8_t slot = 0; slot < 4; slot++) {
		uint8_t reply[24] = {0, 0, 0xff, (uint8_t)(0xff - slot), 0, 0, 0, slot};

		assert_int_equal(
			sendto(fd, reply, sizeof(reply), 0, (struct sockaddr *)&to, sizeof(to)),
			sizeof(reply));
		assert_int_equal(sendto(fd, reply, 8, 0, (struct sockaddr *)&to, sizeof(to)), 8);
	}
	watch_lab_run(&lab->loop, probe_has_result, &lab->result, 3000, "a result");
	assert_string_equal(lab->result.detail, "no echo reply for 150 ms");
	close(fd);
	SHELL("sysctl -qw net.ipv4.icmp_echo_ignore_all=0");
}

static bool have_all(void *context) {
	const struct result *results = context;

	for (int i = 0; i < MANY; i++) {
		if (results[i].calls == 0) {
			return false;
		}
	}
	return true;
}

TEST(ping_of_many, setup_ping, teardown) {
	static struct result results[MANY];
	struct weir_health_ping *ping;
	struct lab *lab = *state;

	lab->check.timeout_ms = 3000;
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(
			start(lab, lab->pings, i % 2 ? "127.0.0.1" : "::1", &results[i], &ping), 0);
	}
	watch_lab_run(&lab->loop, have_all, results, 5000, "all results");
	for (int i = 0; i < MANY; i++) {
		assert_string_equal(results[i].detail, "echo reply");
		assert_int_equal(results[i].calls, 1);
	}
}

// While the link-layer address of a host is unknown, the kernel keeps the requests to it, which
// count as data that the socket has not sent yet.
static void expect_replies_beside_dead_hosts(struct lab *lab) {
	static struct result results[DEAD];
	struct weir_health_ping *ping;

	memset(results, 0, sizeof(results));
	for (int i = 0; i < DEAD; i++) {
		char address[32];

		snprintf(address, sizeof(address), i % 2 ? "10.2.1.%d" : "2001:db8:2::1:%d",
			i / 2 % 50 + 1);
		assert_int_equal(start(lab, lab->pings, address, &results[i], &ping), 0);
	}
	expect(lab, lab->pings, "127.0.0.1", WEIR_PROBE_PASSED, "echo reply");
	expect(lab, lab->pings, "::1", WEIR_PROBE_PASSED, "echo reply");
	watch_lab_idle(&lab->loop, 2 * TIMEOUT_MS);
	for (int i = 0; i < DEAD; i++) {
		assert_string_equal(results[i].detail, "no echo reply for 150 ms");
	}
}

TEST(ping_with_raw_sockets_although_other_hosts_are_dead, setup_raw, teardown) {
	expect_replies_beside_dead_hosts(*state);
}

TEST(ping_with_ping_sockets_although_other_hosts_are_dead, setup_ping, teardown) {
	expect_replies_beside_dead_hosts(*state);
}

// The process may not enlarge the buffer. The backend is not blamed for the full buffer.
static void expect_no_result(struct lab *lab) {
	static struct result results[DEAD];
	const int bytes = 4096;
	int r = 0;

	memset(results, 0, sizeof(results));
	assert_int_equal(setsockopt(lab->fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
	for (int i = 0; i < DEAD && r == 0; i++) {
		struct weir_health_ping *ping;

		r = start(lab, lab->pings, "10.2.1.1", &results[i], &ping);
	}
	assert_int_equal(weir_probe_outcome_of(r), WEIR_PROBE_UNKNOWN);
	watch_lab_idle(&lab->loop, 2 * TIMEOUT_MS);
}

TEST(ping_with_raw_sockets_and_a_full_buffer, setup_raw, teardown) {
	expect_no_result(*state);
}

TEST(ping_with_ping_sockets_and_a_full_buffer, setup_ping, teardown) {
	expect_no_result(*state);
}

TEST(ping_cancelled_calls_nothing, setup_raw, teardown) {
	struct weir_health_ping *ping;
	struct lab *lab = *state;

	assert_int_equal(start(lab, lab->pings, "127.0.0.1", &lab->result, &ping), 0);
	weir_health_ping_cancel(ping);
	assert_int_equal(start(lab, NULL, "127.0.0.1", &lab->result, &ping), 0);
	weir_health_ping_cancel(ping);
	watch_lab_idle(&lab->loop, 2 * TIMEOUT_MS);
	assert_int_equal(lab->result.calls, 0);
}
