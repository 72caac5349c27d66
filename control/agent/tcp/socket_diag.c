// SPDX-License-Identifier: BSD-3-Clause
#include "socket_diag.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

int weir_socket_diag_open(void) {
	const struct timeval timeout = {.tv_sec = 1}; // the kernel responds immediately
	int fd = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG), r;

	if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof(timeout)) == 0) {
		return fd;
	}
	r = -errno;
	if (fd >= 0) {
		close(fd);
	}
	return r;
}

// --- lists --------------------------------------------------------------------------------

static int list_family(int fd, const struct weir_socket_query *query, uint32_t sequence,
	weir_socket_take take, void *context) {
	_Alignas(struct nlmsghdr) char data[WEIR_SOCKET_DUMP_BYTES];
	int r = weir_socket_dump_request(fd, query, sequence);

	while (r == 0) {
		ssize_t n = recv(fd, data, sizeof(data), 0);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		r = n < 0 ? -errno
			  : weir_socket_dump_parse(query, data, (size_t)n, sequence, take, context);
	}
	return r < 0 ? r : 0;
}

int weir_socket_diag_list(int fd, struct weir_socket_query query, uint32_t sequence,
	weir_socket_take take, void *context) {
	int r;

	query.family = AF_INET;
	r = list_family(fd, &query, sequence, take, context);
	query.family = AF_INET6;
	return r == 0 ? list_family(fd, &query, sequence + 1, take, context) : r;
}

// --- one socket ---------------------------------------------------------------------------

static int send_request(
	int fd, uint16_t type, const struct inet_diag_req_v2 *request, uint32_t sequence) {
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} message = {
		.header = {.nlmsg_len = sizeof(message),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
			.nlmsg_seq = sequence},
		.request = *request,
	};

	return sendto(fd, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
		       sizeof(kernel)) < 0
		       ? -errno
		       : 0;
}

// Read the kernel's messages up to the acknowledgement of a request.
static int receive(int fd, uint32_t sequence, weir_socket_found found, void *context) {
	for (;;) {
		_Alignas(struct nlmsghdr) char data[4096];
		ssize_t n = recv(fd, data, sizeof(data), 0);
		const struct nlmsghdr *at = (const struct nlmsghdr *)(const void *)data;

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		for (; NLMSG_OK(at, n); at = NLMSG_NEXT(at, n)) {
			if (at->nlmsg_seq != sequence) { // response to an abandoned request
				continue;
			}
			if (at->nlmsg_type == NLMSG_ERROR) {
				const struct nlmsgerr *error = NLMSG_DATA(at);

				return at->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) ? error->error
										     : -EIO;
			}
			if (at->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
				found(context, NLMSG_DATA(at), at->nlmsg_len - NLMSG_HDRLEN);
			}
		}
	}
}

int weir_socket_diag_request(int fd, uint16_t type, const struct inet_diag_req_v2 *request,
	uint32_t sequence, weir_socket_found found, void *context) {
	int r = send_request(fd, type, request, sequence);

	return r == 0 ? receive(fd, sequence, found, context) : r;
}
