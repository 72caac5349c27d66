// SPDX-License-Identifier: BSD-3-Clause
#include "datagrams.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control { // control message with the local address of a datagram
	struct cmsghdr header;
	char ipv4[CMSG_SPACE(sizeof(struct in_pktinfo))];
	char ipv6[CMSG_SPACE(sizeof(struct in6_pktinfo))];
};

static int open_one(int family, uint16_t port) {
	const struct sockaddr_in any = {.sin_family = AF_INET, .sin_port = htons(port)};
	const struct sockaddr_in6 any6 = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
	int fd = socket(family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), on = 1, r;

	if (fd < 0) {
		return -errno;
	}
	if (family == AF_INET) {
		r = setsockopt(fd, IPPROTO_IP, IP_PKTINFO, &on, sizeof(on));
	} else {
		r = setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
		if (r == 0) {
			r = setsockopt(fd, IPPROTO_IPV6, IPV6_RECVPKTINFO, &on, sizeof(on));
		}
	}
	if (r == 0) {
		r = family == AF_INET ? bind(fd, (const struct sockaddr *)&any, sizeof(any))
				      : bind(fd, (const struct sockaddr *)&any6, sizeof(any6));
	}
	if (r) {
		r = -errno;
		close(fd);
		return r;
	}
	return fd;
}

int weir_datagrams_open(uint16_t port, struct weir_datagrams *ret) {
	struct weir_datagrams datagrams = {.fd = {-1, -1}};

	datagrams.fd[0] = open_one(AF_INET, port);
	if (datagrams.fd[0] < 0) {
		return datagrams.fd[0];
	}
	datagrams.fd[1] = open_one(AF_INET6, port);
	if (datagrams.fd[1] == -EAFNOSUPPORT) {
		datagrams.fd[1] = -1;
	} else if (datagrams.fd[1] < 0) {
		close(datagrams.fd[0]);
		return datagrams.fd[1];
	}
	*ret = datagrams;
	return 0;
}

void weir_datagrams_close(struct weir_datagrams *datagrams) {
	for (int i = 0; i < WEIR_DATAGRAM_SOCKETS; i++) {
		if (datagrams->fd[i] >= 0) {
			close(datagrams->fd[i]);
			datagrams->fd[i] = -1;
		}
	}
}

static void take_own_address(struct msghdr *header, struct sockaddr_storage *ret) {
	for (struct cmsghdr *at = CMSG_FIRSTHDR(header); at != NULL; at = CMSG_NXTHDR(header, at)) {
		if (at->cmsg_level == IPPROTO_IP && at->cmsg_type == IP_PKTINFO) {
			struct sockaddr_in *own = (struct sockaddr_in *)ret;
			struct in_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			own->sin_family = AF_INET;
			own->sin_addr = info.ipi_addr;
		} else if (at->cmsg_level == IPPROTO_IPV6 && at->cmsg_type == IPV6_PKTINFO) {
			struct sockaddr_in6 *own = (struct sockaddr_in6 *)ret;
			struct in6_pktinfo info;

			memcpy(&info, CMSG_DATA(at), sizeof(info));
			own->sin6_family = AF_INET6;
			own->sin6_addr = info.ipi6_addr;
		}
	}
}

int weir_datagrams_receive(int fd, uint8_t *data, size_t room, struct weir_path *ret) {
	struct weir_path path = {0};
	union control control;
	struct iovec vector = {.iov_base = data, .iov_len = room};
	struct msghdr header = {
		.msg_name = &path.peer,
		.msg_namelen = sizeof(path.peer),
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &header, MSG_TRUNC);

	if (n < 0) {
		return -errno;
	}
	path.peer_bytes = header.msg_namelen;
	take_own_address(&header, &path.own);
	*ret = path;
	return (int)n;
}

int weir_datagrams_send(const struct weir_datagrams *datagrams, const uint8_t *data, size_t bytes,
	const struct weir_path *path) {
	union control control = {0};
	struct iovec vector = {.iov_base = (void *)(uintptr_t)data, .iov_len = bytes};
	struct msghdr header = {
		.msg_name = (void *)(uintptr_t)&path->peer,
		.msg_namelen = path->peer_bytes,
		.msg_iov = &vector,
		.msg_iovlen = 1,
		.msg_control = &control,
	};

	if (path->own.ss_family == AF_INET) {
		struct in_pktinfo info = {
			.ipi_spec_dst = ((const struct sockaddr_in *)&path->own)->sin_addr};

		control.header.cmsg_level = IPPROTO_IP;
		control.header.cmsg_type = IP_PKTINFO;
		control.header.cmsg_len = CMSG_LEN(sizeof(info));
		header.msg_controllen = CMSG_SPACE(sizeof(info));
		memcpy(CMSG_DATA(&control.header), &info, sizeof(info));
	} else if (path->own.ss_family == AF_INET6) {
		struct in6_pktinfo info = {
			.ipi6_addr = ((const struct sockaddr_in6 *)&path->own)->sin6_addr};

		control.header.cmsg_level = IPPROTO_IPV6;
		control.header.cmsg_type = IPV6_PKTINFO;
		control.header.cmsg_len = CMSG_LEN(sizeof(info));
		header.msg_controllen = CMSG_SPACE(sizeof(info));
		memcpy(CMSG_DATA(&control.header), &info, sizeof(info));
	}
	if (sendmsg(datagrams->fd[path->peer.ss_family == AF_INET6], &header, 0) < 0) {
		return -errno;
	}
	return 0;
}
