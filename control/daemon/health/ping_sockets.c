// SPDX-License-Identifier: BSD-3-Clause
#include "ping_sockets.h"

#include <errno.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_buffers.h"

// Size of the receive buffer of a socket. It is large enough for the replies to all checks that can
// be in flight, because they can arrive while further requests are sent.
#define RECEIVE_BYTES (4 << 20)
#define ICMP_FILTER_OPTION 1 // ICMP_FILTER of linux/icmp.h, which conflicts with netinet/ip_icmp.h

// Makes a raw socket receive only echo replies.
static int filter(int fd, int family) {
	const uint32_t refused4 = ~(1u << ICMP_ECHOREPLY);
	struct icmp6_filter refused6;

	ICMP6_FILTER_SETBLOCKALL(&refused6);
	ICMP6_FILTER_SETPASS(ICMP6_ECHO_REPLY, &refused6);
	return family == AF_INET
		       ? setsockopt(fd, SOL_RAW, ICMP_FILTER_OPTION, &refused4, sizeof(refused4))
		       : setsockopt(fd, IPPROTO_ICMPV6, ICMP6_FILTER, &refused6, sizeof(refused6));
}

// Returns 0 or negative errno.
static int open_one(int family, struct weir_ping_socket *ret) {
	const int protocol = family == AF_INET ? IPPROTO_ICMP : (int)IPPROTO_ICMPV6;
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	int fd = socket(family, SOCK_DGRAM | flags, protocol);
	bool raw = false;

	if (fd < 0 && errno != EAFNOSUPPORT) {
		fd = socket(family, SOCK_RAW | flags, protocol);
		raw = true;
	}
	if (fd < 0 || (raw && filter(fd, family) < 0)) {
		int r = -errno;

		if (fd >= 0) {
			close(fd);
		}
		return r;
	}
	weir_socket_receive_buffer(fd, RECEIVE_BYTES);
	weir_socket_send_buffer(fd, WEIR_SEND_BUFFER_BYTES);
	*ret = (struct weir_ping_socket){.fd = fd, .raw = raw};
	return 0;
}

int weir_ping_sockets_open(struct weir_ping_sockets *ret) {
	struct weir_ping_sockets sockets = WEIR_PING_SOCKETS_NONE;
	int r = open_one(AF_INET, &sockets.ipv4);

	(void)open_one(AF_INET6, &sockets.ipv6);
	*ret = sockets;
	return r;
}

void weir_ping_sockets_close(struct weir_ping_sockets *sockets) {
	if (sockets->ipv4.fd >= 0) {
		close(sockets->ipv4.fd);
	}
	if (sockets->ipv6.fd >= 0) {
		close(sockets->ipv6.fd);
	}
	*sockets = WEIR_PING_SOCKETS_NONE;
}
