// SPDX-License-Identifier: BSD-3-Clause
#include "data_path_netlink.h"

#include <errno.h>
#include <sys/socket.h>
#include <sys/time.h>

int weir_data_path_netlink_open(struct weir_data_path_netlink *kernel) {
	struct timeval patience = {.tv_sec = 1}; // timeout; the kernel normally answers immediately
	int r;

	kernel->sequence = 0;
	kernel->socket = mnl_socket_open2(NETLINK_ROUTE, SOCK_CLOEXEC);
	if (kernel->socket == NULL) {
		return -errno;
	}
	if (mnl_socket_bind(kernel->socket, 0, MNL_SOCKET_AUTOPID) < 0) {
		r = -errno;
		weir_data_path_netlink_close(kernel);
		return r;
	}
	setsockopt(mnl_socket_get_fd(kernel->socket), SOL_SOCKET, SO_RCVTIMEO, &patience,
		sizeof(patience));
	return 0;
}

void weir_data_path_netlink_close(struct weir_data_path_netlink *kernel) {
	if (kernel->socket != NULL) {
		mnl_socket_close(kernel->socket);
		kernel->socket = NULL;
	}
}

struct nlmsghdr *weir_data_path_netlink_begin(
	struct weir_data_path_netlink *kernel, uint16_t type, uint16_t flags) {
	struct nlmsghdr *request = mnl_nlmsg_put_header(kernel->request);

	request->nlmsg_type = type;
	request->nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK | flags;
	request->nlmsg_seq = ++kernel->sequence;
	return request;
}

// Processes the messages of an answer. Skips messages with another sequence number, which belong to
// an earlier request that timed out.
static int take_answer(
	struct weir_data_path_netlink *kernel, size_t bytes, mnl_cb_t take, void *context) {
	const struct nlmsghdr *message = (const struct nlmsghdr *)kernel->answer;

	if (bytes >= sizeof(*message) && message->nlmsg_seq != kernel->sequence) {
		return MNL_CB_OK;
	}
	return mnl_cb_run(kernel->answer, bytes, kernel->sequence,
		mnl_socket_get_portid(kernel->socket), take, context);
}

int weir_data_path_netlink_request(struct weir_data_path_netlink *kernel,
	const struct nlmsghdr *request, mnl_cb_t take, void *context) {
	ssize_t got;
	int r;

	if (mnl_socket_sendto(kernel->socket, request, request->nlmsg_len) < 0) {
		return -errno;
	}
	do {
		got = mnl_socket_recvfrom(kernel->socket, kernel->answer, sizeof(kernel->answer));
		if (got < 0) {
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		r = take_answer(kernel, (size_t)got, take, context);
	} while (r > 0); // MNL_CB_OK: no acknowledgement has arrived yet
	return r < 0 ? -errno : 0;
}
