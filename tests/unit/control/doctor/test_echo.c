// SPDX-License-Identifier: BSD-3-Clause
//
// Tests echo requests. An answer from a kernel is accepted. An answer from a host that has not
// received the request is refused. The test has its own network namespace, in which the kernel or
// the test answers.
#include "echo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <netinet/in.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "clocks.h"
#include "test.h"
#include "watch_lab.h"

#define MS 150 // shorter than the interval of retransmissions
#define LONG_MS 5000 // timeout; the test ends earlier when an answer arrives
#define DEAD 500 // requests to dead hosts: more than the default send buffer has room for
#define BYTES 600
#define MTU 500
#define NOTHING SIZE_MAX // no byte is damaged
#define ICMP4 20 // offset in an IPv4 packet

// --- simulated host -------------------------------------------------------------------------

struct host {
	int fd; // raw socket that receives requests, and sends answers
	bool too_big; // answer with "too big"
	size_t damaged; // offset of a damaged byte of the answer, or NOTHING
	bool end; // set by the test
	pthread_t thread;
};

static void put16(uint8_t *at, uint32_t value) {
	at[0] = (uint8_t)(value >> 8);
	at[1] = (uint8_t)value;
}

// packet: an IPv4 header of 20 bytes and a payload.
static void send_back(int fd, uint8_t *packet, size_t bytes) {
	struct sockaddr_in to = {.sin_family = AF_INET};

	memcpy(&to.sin_addr, packet + 16, 4);
	put16(packet + 10, 0); // the kernel fills in the checksum
	assert_int_equal(sendto(fd, packet, bytes, 0, (struct sockaddr *)&to, sizeof(to)), bytes);
}

static void swap_addresses(uint8_t *packet) {
	uint8_t address[4];

	memcpy(address, packet + 12, 4);
	memcpy(packet + 12, packet + 16, 4);
	memcpy(packet + 16, address, 4);
}

static void reply(const struct host *host, int fd, uint8_t *request, size_t bytes) {
	request[ICMP4] = 0; // echo reply
	swap_addresses(request);
	if (host->damaged != NOTHING) {
		request[ICMP4 + host->damaged] ^= 1;
	}
	send_back(fd, request, bytes);
}

// Answer "too big" like a router that quotes only the required minimum.
static void tell_mtu(const struct host *host, int fd, const uint8_t *request) {
	uint8_t error[20 + 8 + 20 + 8] = {0x45};

	error[8] = 64;
	error[9] = IPPROTO_ICMP;
	put16(error + 2, sizeof(error));
	memcpy(error + 12, request + 16, 4);
	memcpy(error + 16, request + 12, 4);
	error[20] = 3;
	error[21] = 4;
	put16(error + 26, MTU);
	memcpy(error + 28, request, 28);
	error[28 + 8] -= 3; // change the quoted TTL
	error[28 + 1] = 0xb8; // change the quoted DSCP
	if (host->damaged != NOTHING) {
		error[28 + host->damaged] ^= 1;
	}
	send_back(fd, error, sizeof(error));
}

static void *run(void *context) {
	const struct host *host = context;
	uint8_t packet[2048];
	int fd = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);

	while (!__atomic_load_n(&host->end, __ATOMIC_RELAXED)) {
		ssize_t got = recv(host->fd, packet, sizeof(packet), 0);

		if (got >= ICMP4 + 8 && host->too_big) {
			tell_mtu(host, fd, packet);
		} else if (got >= ICMP4 + 8 && packet[ICMP4] == 8) {
			reply(host, fd, packet, (size_t)got);
		}
	}
	close(fd);
	return NULL;
}

// protocol: IP protocol of the requests that the host receives.
static void start_host(struct host *host, int protocol) {
	const struct timeval turn = {.tv_usec = 10000};

	host->fd = socket(AF_INET, SOCK_RAW, protocol);
	assert_int_equal(setsockopt(host->fd, SOL_SOCKET, SO_RCVTIMEO, &turn, sizeof(turn)), 0);
	assert_int_equal(pthread_create(&host->thread, NULL, run, host), 0);
}

static void stop_host(struct host *host) {
	__atomic_store_n(&host->end, true, __ATOMIC_RELAXED);
	pthread_join(host->thread, NULL);
	close(host->fd);
}

// --- requests ---------------------------------------------------------------------------------

static struct weir_echo request_to(const char *backend, const char *source) {
	return (struct weir_echo){.kind = WEIR_ECHO_DIRECT,
		.backend = watch_lab_address(backend),
		.source = watch_lab_address(source),
		.inner = watch_lab_address(backend),
		.inner_source = watch_lab_address(source)};
}

static struct weir_echo ask(struct weir_echo probe, int deadline_ms) {
	struct weir_echo_sockets sockets;

	assert_int_equal(weir_echo_open(&sockets), 0);
	weir_echo_round(&sockets, &probe, 1, deadline_ms);
	weir_echo_close(&sockets);
	assert_int_equal(probe.error, 0);
	return probe;
}

static struct weir_echo ask_host(struct host host, int deadline_ms) {
	struct weir_echo probe = request_to("127.0.0.2", "127.0.0.1");

	start_host(&host, IPPROTO_ICMP);
	probe = ask(probe, deadline_ms);
	stop_host(&host);
	return probe;
}

static struct weir_echo ask_through(
	struct host host, enum weir_forwarding_mode mode, int deadline_ms) {
	static const int protocols[WEIR_FORWARDING_COUNT] = {[WEIR_FORWARDING_IPIP] = IPPROTO_IPIP,
		[WEIR_FORWARDING_GUE] = IPPROTO_UDP,
		[WEIR_FORWARDING_GRE] = IPPROTO_GRE};
	struct weir_echo probe = request_to("127.0.0.2", "127.0.0.1");

	probe.kind = WEIR_ECHO_TUNNEL;
	probe.bytes = BYTES;
	probe.forwarding =
		(struct weir_forwarding){.mode = (uint8_t)mode, .gue_port = WEIR_GUE_PORT};
	start_host(&host, protocols[mode]);
	probe = ask(probe, deadline_ms);
	stop_host(&host);
	return probe;
}

static void kernel_answers(bool answers) {
	SHELL("echo %d >/proc/sys/net/ipv4/icmp_echo_ignore_all", answers ? 0 : 1);
}

// --- tests ------------------------------------------------------------------------------------

TEST_GROUP(watch_lab_enter);

TEST(answers_of_a_kernel_are_accepted) {
	kernel_answers(true);
	assert_true(ask(request_to("127.0.0.2", "127.0.0.1"), LONG_MS).answered);
	assert_true(ask(request_to("::1", "::1"), LONG_MS).answered);
}

TEST(an_answer_must_have_the_random_values_of_the_request) {
	kernel_answers(false);
	assert_true(ask_host((struct host){.damaged = NOTHING}, LONG_MS).answered);
	for (size_t i = 0; i < WEIR_ECHO_TOKEN_BYTES; i += 5) {
		assert_false(ask_host((struct host){.damaged = 8 + i}, MS).answered);
	}
}

TEST(an_error_must_quote_the_request) {
	static const size_t damaged[] = {4, 5, 12, 19, 20 + 4, 20 + 5};

	static const enum weir_forwarding_mode modes[] = {
		WEIR_FORWARDING_IPIP, WEIR_FORWARDING_GUE, WEIR_FORWARDING_GRE};
	struct host host = {.too_big = true, .damaged = NOTHING};

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		assert_int_equal(ask_through(host, modes[i], LONG_MS).advertised_mtu, MTU);
	}
	for (size_t i = 0; i < sizeof(damaged) / sizeof(damaged[0]); i++) {
		host.damaged = damaged[i];
		assert_int_equal(ask_through(host, WEIR_FORWARDING_IPIP, MS).advertised_mtu, 0);
	}
}

// Other programs send more requests than a socket's buffer has room for. The answer must not be
// lost.
TEST(requests_of_others_displace_no_answer) {
	const struct sockaddr_in self = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	const uint8_t request[8] = {8, 0, 0xf7, 0xff};
	struct weir_echo probe = request_to("127.0.0.2", "127.0.0.1");
	struct weir_echo_sockets sockets;
	int other = socket(AF_INET, SOCK_RAW, IPPROTO_ICMP);

	kernel_answers(false);
	assert_int_equal(weir_echo_open(&sockets), 0);
	for (int i = 0; i < 5000; i++) {
		(void)sendto(other, request, sizeof(request), 0, (const struct sockaddr *)&self,
			sizeof(self));
	}
	kernel_answers(true);
	weir_echo_round(&sockets, &probe, 1, MS);
	assert_true(probe.answered);
	weir_echo_close(&sockets);
	close(other);
}

// While the link-layer address of a host is unknown, the kernel keeps the requests to it, which
// count as data that the socket has not sent yet. Sending must not wait for them.
TEST(round_ends_in_time_although_hosts_are_dead) {
	static struct weir_echo probes[DEAD + 1];
	struct weir_echo_sockets sockets;
	const int64_t begin = weir_monotonic_ms();

	kernel_answers(true);
	SHELL("ip link add dead type veth peer name grave && ip link set dead up &&"
	      "ip link set grave up && ip addr add 10.2.0.1/24 dev dead");
	for (int i = 0; i < DEAD; i++) {
		char address[16];

		snprintf(address, sizeof(address), "10.2.0.%d", i % 50 + 2);
		probes[i] = request_to(address, "10.2.0.1");
	}
	probes[DEAD] = request_to("127.0.0.2", "127.0.0.1");
	assert_int_equal(weir_echo_open(&sockets), 0);
	weir_echo_round(&sockets, probes, DEAD + 1, MS);
	assert_true(probes[DEAD].answered);
	assert_in_range(weir_monotonic_ms() - begin, 0, 1500);
	weir_echo_close(&sockets);
}

TEST(round_without_an_open_request_ends_at_once) {
	struct weir_echo probe = request_to("10.9.0.1", "127.0.0.1"); // there is no route
	struct weir_echo_sockets sockets;
	int64_t begin;

	assert_int_equal(weir_echo_open(&sockets), 0);
	begin = weir_monotonic_ms();
	weir_echo_round(&sockets, NULL, 0, LONG_MS);
	weir_echo_round(&sockets, &probe, 1, LONG_MS);
	assert_true(probe.error < 0);
	assert_in_range(weir_monotonic_ms() - begin, 0, MS);
	weir_echo_close(&sockets);
}
