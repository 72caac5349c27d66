// SPDX-License-Identifier: BSD-3-Clause
#include "shed_sockets.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listeners.h"

struct answer { // what the kernel has answered to a request about one socket
	const struct weir_shed_connection *connection;
	uint32_t idle_ms; // minimum idle time
	bool idle; // the connection is established and idle
};

int weir_shed_sockets_open(struct weir_shed_sockets *ret) {
	int fd = weir_listeners_open();

	if (fd < 0) {
		return fd;
	}
	*ret = (struct weir_shed_sockets){.fd = fd};
	return 0;
}

void weir_shed_sockets_close(struct weir_shed_sockets *sockets) {
	if (sockets->fd >= 0) {
		close(sockets->fd);
		sockets->fd = -1;
	}
}

// --- lists --------------------------------------------------------------------------------

static int look_at(
	struct weir_shed_sockets *sockets, const struct weir_socket_query *query, void *pick) {
	_Alignas(struct nlmsghdr) char data[WEIR_SOCKET_DUMP_BYTES];
	uint32_t sequence = ++sockets->sequence;
	int r = weir_socket_dump_request(sockets->fd, query, sequence);

	while (r == 0) {
		ssize_t n = recv(sockets->fd, data, sizeof(data), 0);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		r = n < 0 ? -errno
			  : weir_socket_dump_parse(
				    query, data, (size_t)n, sequence, weir_shed_pick_take, pick);
	}
	return r < 0 ? r : 0;
}

int weir_shed_sockets_look(struct weir_shed_sockets *sockets, const uint16_t *ports,
	uint32_t port_count, struct weir_shed_pick *pick, uint64_t now_ms) {
	struct weir_socket_query query = {.family = AF_INET,
		.protocol = IPPROTO_TCP,
		.states = 1u << TCP_ESTABLISHED,
		.attribute = INET_DIAG_INFO,
		.ports = ports,
		.port_count = port_count};
	int r;

	weir_shed_pick_begin(pick, now_ms);
	r = look_at(sockets, &query, pick);
	if (r == 0) {
		query.family = AF_INET6;
		r = look_at(sockets, &query, pick);
	}
	weir_shed_pick_end(pick);
	return r;
}

// --- ends ---------------------------------------------------------------------------------

static int send_request(struct weir_shed_sockets *sockets, uint16_t type,
	const struct weir_shed_connection *connection) {
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	const struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
	} message = {
		.header = {.nlmsg_len = sizeof(message),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
			.nlmsg_seq = ++sockets->sequence},
		.request = {.sdiag_family = connection->family,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = 1u << (INET_DIAG_INFO - 1),
			.idiag_states = 1u << TCP_ESTABLISHED,
			.id = connection->id}, // with the cookie: no other socket is meant
	};

	return sendto(sockets->fd, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
		       sizeof(kernel)) < 0
		       ? -errno
		       : 0;
}

static void take_answer(void *context, const struct weir_socket *socket) {
	struct answer *answer = context;
	uint32_t idle_ms;

	answer->idle = socket->message->idiag_state == TCP_ESTABLISHED &&
		       memcmp(socket->message->id.idiag_cookie, answer->connection->id.idiag_cookie,
			       sizeof(answer->connection->id.idiag_cookie)) == 0 &&
		       weir_shed_is_idle(socket->message, socket->attribute,
			       socket->attribute_bytes, answer->idle_ms, &idle_ms);
}

// Read the kernel's messages up to the acknowledgement. Returns 0, or the negative errno of the
// acknowledgement or of reading.
static int receive(struct weir_shed_sockets *sockets, struct answer *answer) {
	const uint16_t port = ntohs(answer->connection->id.idiag_sport);
	const struct weir_socket_query query = {
		.attribute = INET_DIAG_INFO, .ports = &port, .port_count = 1};

	for (;;) {
		_Alignas(struct nlmsghdr) char data[4096];
		ssize_t n = recv(sockets->fd, data, sizeof(data), 0);
		const struct nlmsghdr *header = (const struct nlmsghdr *)(const void *)data;
		struct nlmsgerr error;

		if (n < 0 && errno == EINTR) {
			continue;
		}
		if (n < 0) {
			return errno == EAGAIN ? -ETIMEDOUT : -errno;
		}
		if (n < (ssize_t)(NLMSG_HDRLEN + sizeof(error)) ||
			header->nlmsg_seq != sockets->sequence) {
			continue;
		}
		if (header->nlmsg_type == NLMSG_ERROR) {
			memcpy(&error, data + NLMSG_HDRLEN, sizeof(error));
			return error.error;
		}
		(void)weir_socket_dump_parse(
			&query, data, (size_t)n, sockets->sequence, take_answer, answer);
	}
}

int weir_shed_sockets_end(struct weir_shed_sockets *sockets,
	const struct weir_shed_connection *connection, uint32_t idle_ms, bool *ret_ended) {
	struct answer answer = {.connection = connection, .idle_ms = idle_ms};
	int r = send_request(sockets, SOCK_DIAG_BY_FAMILY, connection);

	*ret_ended = false;
	if (r == 0) {
		r = receive(sockets, &answer);
	}
	if (r == 0 && answer.idle) {
		r = send_request(sockets, SOCK_DESTROY, connection);
		if (r == 0) {
			r = receive(sockets, &answer);
		}
		*ret_ended = r == 0;
	}
	return r == -ENOENT || r == -ESTALE ? 0 : r; // the connection has closed by itself
}
