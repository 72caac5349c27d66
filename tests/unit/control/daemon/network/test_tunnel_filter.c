// SPDX-License-Identifier: BSD-3-Clause
//
// The filters of the ICMP sockets, with the kernel: messages are sent to the loopback address.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "path_mtu.h"
#include "unreachable.h"
#include "watch_lab.h"

static uint8_t inside; // protocol of the GUE header in quoted packets

static void send4(uint8_t type, uint8_t code, uint8_t protocol) {
	const struct sockaddr_in to = {
		.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	uint8_t message[8 + 20 + 12] = {
		type, code, [8] = 0x45, [8 + 9] = protocol, [8 + 20 + 9] = inside};
	int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMP);

	assert_int_equal(
		sendto(fd, message, sizeof(message), 0, (const struct sockaddr *)&to, sizeof(to)),
		sizeof(message));
	close(fd);
}

static void send6(uint8_t type, uint8_t code, uint8_t protocol) {
	const struct sockaddr_in6 to = {.sin6_family = AF_INET6, .sin6_addr = in6addr_loopback};
	uint8_t message[8 + 40 + 12] = {
		type, code, [8] = 0x60, [8 + 6] = protocol, [8 + 40 + 9] = inside};
	int fd = socket(AF_INET6, SOCK_RAW | SOCK_CLOEXEC, IPPROTO_ICMPV6);

	assert_int_equal(
		sendto(fd, message, sizeof(message), 0, (const struct sockaddr *)&to, sizeof(to)),
		sizeof(message));
	close(fd);
}

// Returns the number of messages that the filter of a socket accepts.
static unsigned int count(int fd) {
	uint8_t message[256];
	unsigned int n = 0;

	while (recv(fd, message, sizeof(message), MSG_DONTWAIT) > 0) {
		n++;
	}
	return n;
}

// Sends a message with each protocol as that of the quoted packet. Returns how many pass.
static unsigned int pass(int fd, void (*send)(uint8_t type, uint8_t code, uint8_t protocol),
	uint8_t type, uint8_t code) {
	unsigned int n = 0;

	for (unsigned int protocol = 0; protocol < 256; protocol++) {
		send(type, code, (uint8_t)protocol);
		n += count(fd);
	}
	return n;
}

TEST_GROUP(watch_lab_enter);

// Neighbours answer the datagrams that look up their MAC address with "port unreachable".
TEST(errors_about_other_datagrams_are_refused) {
	struct weir_icmp_sockets sockets;

	assert_int_equal(weir_unreachable_open(&sockets), 0);
	for (inside = 0; inside < 50; inside++) {
		const unsigned int ours = inside == IPPROTO_IPIP || inside == IPPROTO_IPV6;

		send4(3, 3, IPPROTO_UDP);
		assert_int_equal(count(sockets.ipv4), ours);
		send6(1, 4, IPPROTO_UDP);
		assert_int_equal(count(sockets.ipv6), ours);
	}
	weir_icmp_close(&sockets);
}

// IPIP, IPv6, UDP and GRE; and for "packet too big", packets with a fragment header.
TEST(filters_accept_quoted_packets_of_all_modes) {
	struct weir_icmp_sockets sockets;

	inside = IPPROTO_IPIP;
	assert_int_equal(weir_path_mtu_open(&sockets), 0);
	assert_int_equal(pass(sockets.ipv4, send4, 3, 4), 4);
	assert_int_equal(pass(sockets.ipv4, send4, 3, 3), 0);
	assert_int_equal(pass(sockets.ipv4, send4, 11, 4), 0);
	assert_int_equal(pass(sockets.ipv6, send6, 2, 0), 5);
	assert_int_equal(pass(sockets.ipv6, send6, 1, 0), 0);
	weir_icmp_close(&sockets);
	assert_int_equal(weir_unreachable_open(&sockets), 0);
	assert_int_equal(pass(sockets.ipv4, send4, 3, 2), 4);
	assert_int_equal(pass(sockets.ipv4, send4, 3, 4), 0);
	assert_int_equal(pass(sockets.ipv4, send4, 11, 0), 0);
	assert_int_equal(pass(sockets.ipv6, send6, 1, 4), 4);
	assert_int_equal(pass(sockets.ipv6, send6, 4, 1), 4);
	assert_int_equal(pass(sockets.ipv6, send6, 2, 0), 0);
	weir_icmp_close(&sockets);
}
