// SPDX-License-Identifier: BSD-3-Clause
//
// Tests the events that report when sockets start or stop to listen, and the kernel's list of
// listening sockets. The sockets are in a separate network namespace. Needs root.
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "listen_loader.h"
#include "listen_reader.h"
#include "listeners.h"
#include "own_network.h"
#include "test.h"

#define PORT 8080
#define PORT6 8081
#define STRANGE_PORT 8082
#define UDP_PORT 8053

static const uint16_t ports[] = {PORT, PORT6};

struct lab {
	struct weir_listen_program program;
	struct weir_listen_reader *reader;
};

static int bind_to(int family, int type, uint16_t port) {
	struct sockaddr_in in = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct sockaddr_in6 in6 = {.sin6_family = AF_INET6,
		.sin6_port = htons(port),
		.sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(family, type, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	assert_return_code(bind(fd, family == AF_INET ? (struct sockaddr *)&in : (void *)&in6,
				   family == AF_INET ? sizeof(in) : sizeof(in6)),
		errno);
	return fd;
}

static int listen_at(int family, uint16_t port) {
	int fd = bind_to(family, SOCK_STREAM, port);

	assert_return_code(listen(fd, 10), errno);
	return fd;
}

static void connect_to(int fd, uint16_t port) {
	const struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	assert_return_code(connect(fd, (const struct sockaddr *)&to, sizeof(to)), errno);
}

static int setup(void **state) {
	struct lab *lab = calloc(1, sizeof(*lab));
	char why[256] = "";

	if (weir_listen_load(ports, 2, &lab->program, why, sizeof(why))) {
		fprintf(stderr, "%s\n", why);
		return -1;
	}
	*state = lab;
	return weir_listen_open(lab->program.ring, &lab->reader);
}

static int teardown(void **state) {
	struct lab *lab = *state;

	weir_listen_close(lab->reader);
	weir_listen_unload(&lab->program);
	free(lab);
	return 0;
}

TEST_GROUP(own_network_enter);
TEST_EACH(setup, teardown);

static bool is_readable(int fd, int timeout_ms) {
	struct pollfd poll_fd = {.fd = fd, .events = POLLIN};

	return poll(&poll_fd, 1, timeout_ms) == 1;
}

static void expect(struct lab *lab, uint16_t port, bool listens) {
	struct weir_listen_event event;

	assert_true(is_readable(lab->program.ring, 5000));
	assert_true(weir_listen_take(lab->reader, &event));
	assert_int_equal(event.port, port);
	assert_int_equal(event.listens, listens);
}

static void expect_none(struct lab *lab) {
	struct weir_listen_event event;

	assert_false(weir_listen_take(lab->reader, &event));
	assert_false(is_readable(lab->program.ring, 0));
}

static uint32_t count(uint8_t protocol, uint16_t port) {
	int fd = weir_socket_diag_open();
	uint32_t counts[2];
	const uint16_t both[] = {STRANGE_PORT, port};

	assert_return_code(fd, errno);
	assert_int_equal(weir_listeners_count(fd, protocol, both, 2, counts), 0);
	close(fd);
	return counts[1];
}

TEST(listen_events_of_tcp) {
	struct lab *lab = *state;
	int fd = bind_to(AF_INET, SOCK_STREAM, PORT), second, client;

	expect_none(lab); // bound, but not listening yet
	assert_return_code(listen(fd, 10), errno);
	expect(lab, PORT, true);
	second = listen_at(AF_INET6, PORT6);
	expect(lab, PORT6, true);
	client = socket(AF_INET, SOCK_STREAM, 0);
	connect_to(client, PORT);
	close(accept(fd, NULL, NULL));
	close(client);
	close(listen_at(AF_INET, STRANGE_PORT));
	expect_none(lab);
	close(fd);
	expect(lab, PORT, false);
	shutdown(second, SHUT_RDWR);
	expect(lab, PORT6, false);
	close(second);
	expect_none(lab);
}

// If the kernel lacks the module of a protocol, the number of listeners is not known. The result
// must be an error, not 0 sockets.
TEST(listeners_of_a_protocol_that_the_kernel_lacks_are_an_error) {
	int fd = weir_socket_diag_open();
	uint32_t counts[2];

	assert_return_code(fd, errno);
	assert_int_equal(weir_listeners_count(fd, 200, ports, 2, counts), -ENOENT);
	assert_int_equal(weir_listeners_count(fd, IPPROTO_TCP, ports, 2, counts), 0);
	close(fd);
}

TEST(listen_events_of_other_namespaces_are_left_out) {
	struct lab *lab = *state;
	int status = -1;
	pid_t child = fork();

	if (child == 0) {
		_exit(own_network_enter(NULL) || close(listen_at(AF_INET, PORT)));
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
	expect_none(lab);
}

// When the event for a closed socket arrives, the kernel's list no longer contains the socket, even
// if its process was killed.
TEST(listen_events_of_deaths_come_after_the_socket_has_gone) {
	struct lab *lab = *state;

	for (int i = 0; i < 50; i++) {
		int status;
		pid_t child = fork();

		if (child == 0) {
			listen_at(AF_INET, PORT);
			pause();
		}
		expect(lab, PORT, true);
		kill(child, SIGKILL);
		expect(lab, PORT, false);
		assert_int_equal(count(IPPROTO_TCP, PORT), 0);
		waitpid(child, &status, 0);
	}
}

// If there are more events than the ring has room for, the reader gets the oldest events. After it
// has read them, it gets new events again.
TEST(listen_events_continue_after_a_full_ring) {
	struct lab *lab = *state;
	struct weir_listen_event event;
	uint32_t taken = 0;

	for (int i = 0; i < 400; i++) {
		close(listen_at(AF_INET, PORT));
	}
	while (weir_listen_take(lab->reader, &event)) {
		assert_int_equal(event.listens, taken++ % 2 == 0);
	}
	assert_in_range(taken, 200, 256); // an event takes 16 of the 4,096 bytes of the ring
	for (int i = 0; i < 400; i++) { // the ring wraps around
		close(listen_at(AF_INET, PORT));
		expect(lab, PORT, true);
		expect(lab, PORT, false);
	}
}

// The helper process loads the program and exits. The agent, which has no privileges, still gets
// events.
TEST(listen_events_outlive_their_loader) {
	struct lab *lab = *state;
	int status = -1;
	pid_t child;

	weir_listen_close(lab->reader);
	lab->reader = NULL;
	child = fork();
	if (child == 0) {
		struct weir_listen_event event;

		assert_return_code(setgid(65534), errno);
		assert_return_code(setuid(65534), errno);
		assert_int_equal(weir_listen_open(lab->program.ring, &lab->reader), 0);
		close(listen_at(AF_INET, PORT));
		expect(lab, PORT, true);
		assert_true(weir_listen_take(lab->reader, &event));
		_exit(0);
	}
	waitpid(child, &status, 0);
	assert_int_equal(status, 0);
}

TEST(listeners_are_counted_for_each_port) {
	int tcp = listen_at(AF_INET, PORT), tcp6 = listen_at(AF_INET6, PORT),
	    bound = bind_to(AF_INET, SOCK_STREAM, PORT6),
	    udp = bind_to(AF_INET, SOCK_DGRAM, UDP_PORT),
	    connected = bind_to(AF_INET, SOCK_DGRAM, UDP_PORT),
	    udp6 = bind_to(AF_INET6, SOCK_DGRAM, PORT6);

	connect_to(connected, 9);
	assert_int_equal(count(IPPROTO_TCP, PORT), 2);
	assert_int_equal(count(IPPROTO_TCP, PORT6), 0);
	assert_int_equal(count(IPPROTO_TCP, UDP_PORT), 0);
	assert_int_equal(count(IPPROTO_UDP, UDP_PORT), 1);
	assert_int_equal(count(IPPROTO_UDP, PORT6), 1);
	assert_int_equal(count(IPPROTO_UDP, PORT), 0);
	close(tcp);
	assert_int_equal(count(IPPROTO_TCP, PORT), 1);
	close(udp);
	assert_int_equal(count(IPPROTO_UDP, UDP_PORT), 0);
	close(tcp6);
	close(bound);
	close(connected);
	close(udp6);
}

// Replaces libc's recv(), to count the bytes of the kernel's socket lists.
static size_t received;

ssize_t recv(int fd, void *data, size_t bytes, int flags) {
	ssize_t n = recvfrom(fd, data, bytes, flags, NULL, NULL);

	received += n > 0 ? (size_t)n : 0;
	return n;
}

TEST(listeners_at_other_ports_are_not_listed) {
	int others[200], tcp = listen_at(AF_INET, PORT);

	for (uint16_t i = 0; i < 200; i++) {
		others[i] = listen_at(AF_INET, (uint16_t)(PORT + 1 + i));
	}
	received = 0;
	assert_int_equal(count(IPPROTO_TCP, PORT), 1);
	assert_in_range(received, 1, 1000);
	for (uint16_t i = 0; i < 200; i++) {
		close(others[i]);
	}
	close(tcp);
}

// Only sockets at listed ports are counted, for any list of 1 to 64 ports.
TEST(listeners_are_counted_at_many_ports) {
	uint16_t many[64];
	uint32_t counts[64];
	int fd = weir_socket_diag_open(),
	    others[] = {listen_at(AF_INET, PORT - 1), listen_at(AF_INET, PORT + 2 * 64)};

	assert_return_code(fd, errno);
	for (uint32_t i = 0; i < 64; i++) {
		many[i] = (uint16_t)(PORT + 2 * i);
	}
	// the list has every second port; other sockets listen between, before and after these
	// ports
	for (uint32_t of = 1; of <= 64; of++) {
		int tcp = listen_at(AF_INET, many[of - 1]),
		    between = listen_at(AF_INET, many[of - 1] + 1),
		    tcp6 = listen_at(AF_INET6, many[of / 2]);

		assert_int_equal(weir_listeners_count(fd, IPPROTO_TCP, many, of, counts), 0);
		for (uint32_t i = 0; i < of; i++) {
			assert_int_equal(counts[i], (i == of - 1) + (i == of / 2));
		}
		close(tcp);
		close(between);
		close(tcp6);
	}
	close(others[0]);
	close(others[1]);
	close(fd);
}
