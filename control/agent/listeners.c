// SPDX-License-Identifier: BSD-3-Clause
#include "listeners.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define FILTER_PORTS_MAX 64 // of more, the kernel lists all sockets

#define STATE(name) (1u << TCP_##name)
#define NOT_OVER \
	(STATE(SYN_RECV) | STATE(ESTABLISHED) | STATE(CLOSE_WAIT) | STATE(FIN_WAIT1) | \
		STATE(CLOSING) | STATE(LAST_ACK))

// port: the index of the socket's port in the query.
typedef void (*take)(const struct inet_diag_msg *socket, uint32_t port, void *context);

struct query {
	uint8_t protocol;
	uint32_t states;
	const uint16_t *ports;
	uint32_t port_count;
	take take;
	void *context;
};

int weir_listeners_open(void) {
	const struct timeval timeout = {.tv_sec = 1}; // the kernel responds at once
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

// The kernel's filter: a socket passes if one of these blocks accepts its port, which is a jump to
// the end; the last block rejects others by a jump beyond it. Ports are compared by >= and <=,
// which all kernels know.
struct filter_port {
	struct inet_diag_bc_op least, least_port, most, most_port, accept;
};
_Static_assert(sizeof(struct filter_port) == 20, "a block without a gap");

static size_t write_filter(const struct query *query, struct filter_port *to) {
	uint32_t count = query->port_count;

	for (uint32_t i = 0; i < count; i++) {
		const uint16_t last = i + 1 == count ? sizeof(struct inet_diag_bc_op) : 0;

		to[i] = (struct filter_port){
			.least = {INET_DIAG_BC_S_GE, 8, (uint16_t)(20 + last)},
			.least_port = {.no = query->ports[i]},
			.most = {INET_DIAG_BC_S_LE, 8, (uint16_t)(12 + last)},
			.most_port = {.no = query->ports[i]},
			.accept = {INET_DIAG_BC_JMP, 4,
				(uint16_t)(4 + (count - 1 - i) * sizeof(*to))},
		};
	}
	return count * sizeof(*to);
}

static int request_dump(int fd, uint8_t family, const struct query *query, uint32_t sequence) {
	struct {
		struct nlmsghdr header;
		struct inet_diag_req_v2 request;
		struct nlattr attribute;
		struct filter_port filter[FILTER_PORTS_MAX];
	} message = {
		.header = {.nlmsg_len = offsetof(typeof(message), attribute),
			.nlmsg_type = SOCK_DIAG_BY_FAMILY,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP,
			.nlmsg_seq = sequence},
		.request = {.sdiag_family = family,
			.sdiag_protocol = query->protocol,
			.idiag_states = query->states},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};

	if (query->port_count > 0 && query->port_count <= FILTER_PORTS_MAX) {
		message.attribute.nla_type = INET_DIAG_REQ_BYTECODE;
		message.attribute.nla_len =
			(uint16_t)(sizeof(message.attribute) + write_filter(query, message.filter));
		message.header.nlmsg_len += message.attribute.nla_len;
	}
	return sendto(fd, &message, message.header.nlmsg_len, 0, (const struct sockaddr *)&kernel,
		       sizeof(kernel)) < 0
		       ? -errno
		       : 0;
}

static void take_socket(const struct query *query, const struct inet_diag_msg *socket) {
	for (uint32_t i = 0; i < query->port_count; i++) {
		if (ntohs(socket->id.idiag_sport) == query->ports[i]) {
			query->take(socket, i, query->context);
			return;
		}
	}
}

// Parse the messages of one read. Returns 1 at the end of the dump, 0 before, or negative errno.
static int take_messages(const struct query *query, char *data, ssize_t bytes, uint32_t sequence) {
	const struct nlmsghdr *at = (const struct nlmsghdr *)data;

	for (; NLMSG_OK(at, bytes); at = NLMSG_NEXT(at, bytes)) {
		if (at->nlmsg_seq != sequence) { // of an abandoned dump
			continue;
		}
		if (at->nlmsg_type == NLMSG_DONE) {
			return 1;
		}
		if (at->nlmsg_type == NLMSG_ERROR) {
			const struct nlmsgerr *error = NLMSG_DATA(at);

			return at->nlmsg_len >= NLMSG_LENGTH(sizeof(*error)) && error->error < 0
				       ? error->error
				       : -EIO;
		}
		if (at->nlmsg_len >= NLMSG_LENGTH(sizeof(struct inet_diag_msg))) {
			take_socket(query, NLMSG_DATA(at));
		}
	}
	return 0;
}

static int dump(int fd, uint8_t family, const struct query *query) {
	_Alignas(struct nlmsghdr) char data[16384];
	uint32_t sequence = (uint32_t)query->protocol << 8 | family;
	int r = request_dump(fd, family, query, sequence);

	while (r == 0) {
		ssize_t n = recv(fd, data, sizeof(data), 0);

		if (n < 0 && errno == EINTR) {
			continue;
		}
		r = n < 0 ? -errno : take_messages(query, data, n, sequence);
	}
	return r < 0 ? r : 0;
}

static int dump_both(int fd, const struct query *query) {
	int r = dump(fd, AF_INET, query);

	return r == 0 ? dump(fd, AF_INET6, query) : r;
}

static void take_queue(const struct inet_diag_msg *socket, uint32_t port, void *context) {
	struct weir_listeners_queue *fullest = context;

	(void)port;
	// length / limit > fullest->length / fullest->limit
	if (fullest->sockets++ == 0 || (uint64_t)socket->idiag_rqueue * fullest->limit >
					       (uint64_t)fullest->length * socket->idiag_wqueue) {
		fullest->length = socket->idiag_rqueue;
		fullest->limit = socket->idiag_wqueue;
	}
}

static void take_connection(const struct inet_diag_msg *socket, uint32_t port, void *context) {
	struct weir_listeners_connections *connections = context;

	(void)port;
	if (socket->idiag_state == TCP_SYN_RECV) {
		connections->half_open++;
	} else {
		connections->open++;
	}
}

static void take_count(const struct inet_diag_msg *socket, uint32_t port, void *context) {
	uint32_t *counts = context;

	(void)socket;
	counts[port]++;
}

int weir_listeners_count(int fd, uint8_t protocol, const uint16_t *ports, uint32_t port_count,
	uint32_t *ret_counts) {
	// A UDP socket that is not connected is "closed".
	const struct query query = {protocol,
		protocol == IPPROTO_UDP ? STATE(CLOSE) : STATE(LISTEN), ports, port_count,
		take_count, ret_counts};

	memset(ret_counts, 0, port_count * sizeof(*ret_counts));
	return dump_both(fd, &query);
}

int weir_listeners_queue(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_queue *ret) {
	struct weir_listeners_queue queue = {0};
	const struct query query = {
		IPPROTO_TCP, STATE(LISTEN), ports, port_count, take_queue, &queue};
	int r = dump_both(fd, &query);

	if (r == 0) {
		*ret = queue;
	}
	return r;
}

int weir_listeners_connections(int fd, const uint16_t *ports, uint32_t port_count,
	struct weir_listeners_connections *ret) {
	struct weir_listeners_connections connections = {0};
	const struct query query = {
		IPPROTO_TCP, NOT_OVER, ports, port_count, take_connection, &connections};
	int r = dump_both(fd, &query);

	if (r == 0) {
		*ret = connections;
	}
	return r;
}
