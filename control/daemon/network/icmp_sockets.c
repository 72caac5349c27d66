// SPDX-License-Identifier: BSD-3-Clause
#include "icmp_sockets.h"

#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_buffers.h"

// Size of the receive buffer of a socket: room for thousands of messages, because a flood can
// arrive between two reads.
#define RECEIVE_BYTES (4 << 20)

bool weir_icmp_checksum_good(const uint8_t *icmp, size_t bytes) {
	uint32_t sum = bytes % 2 != 0 ? (uint32_t)icmp[bytes - 1] << 8 : 0;

	for (size_t i = 0; i + 1 < bytes; i += 2) {
		sum += weir_icmp_get16(icmp + i);
	}
	sum = (sum & 0xffff) + (sum >> 16);
	return ((sum + (sum >> 16)) & 0xffff) == 0xffff;
}

static int prepare(int fd, const struct weir_icmp_filter *filter) {
	struct sock_fprog program = {.len = filter->instructions,
		.filter = (struct sock_filter *)(uintptr_t)filter->code};

	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0) {
		return -errno;
	}
	weir_socket_receive_buffer(fd, RECEIVE_BYTES);
	return 0;
}

int weir_icmp_open(const struct weir_icmp_filter *ipv4, const struct weir_icmp_filter *ipv6,
	struct weir_icmp_sockets *ret) {
	struct weir_icmp_sockets sockets = {.ipv4 = -1, .ipv6 = -1};
	int r;

	sockets.ipv4 = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMP);
	if (sockets.ipv4 < 0) {
		return -errno;
	}
	r = prepare(sockets.ipv4, ipv4);
	if (r < 0) {
		goto close_sockets;
	}
	sockets.ipv6 = socket(AF_INET6, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_ICMPV6);
	if (sockets.ipv6 < 0 && errno != EAFNOSUPPORT) {
		r = -errno;
		goto close_sockets;
	}
	if (sockets.ipv6 >= 0) {
		r = prepare(sockets.ipv6, ipv6);
	}
	if (r < 0) {
		goto close_sockets;
	}
	*ret = sockets;
	return 0;

close_sockets:
	weir_icmp_close(&sockets);
	return r;
}

void weir_icmp_close(struct weir_icmp_sockets *sockets) {
	if (sockets->ipv4 >= 0) {
		close(sockets->ipv4);
	}
	if (sockets->ipv6 >= 0) {
		close(sockets->ipv6);
	}
	*sockets = (struct weir_icmp_sockets){.ipv4 = -1, .ipv6 = -1};
}

static bool receive(int fd, uint8_t family, unsigned int *budget, struct weir_icmp_message *ret) {
	struct sockaddr_in6 from = {0};
	socklen_t from_bytes = sizeof(from);
	ssize_t got;

	if (fd < 0 || *budget == 0) {
		return false;
	}
	got = recvfrom(fd, ret->data, sizeof(ret->data), 0, (struct sockaddr *)&from, &from_bytes);
	if (got < 0) {
		return false;
	}
	(*budget)--;
	ret->family = family;
	ret->bytes = (size_t)got;
	ret->from =
		family == 6 ? weir_address_of(6, from.sin6_addr.s6_addr) : (struct weir_address){0};
	return true;
}

bool weir_icmp_receive(const struct weir_icmp_sockets *sockets, unsigned int budget[2],
	struct weir_icmp_message *ret) {
	return receive(sockets->ipv4, 4, &budget[0], ret) ||
	       receive(sockets->ipv6, 6, &budget[1], ret);
}
