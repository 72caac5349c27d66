// SPDX-License-Identifier: BSD-3-Clause
#include "listeners.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#define STATE(name) (1u << TCP_##name)
#define NOT_OVER \
	(STATE(SYN_RECV) | STATE(ESTABLISHED) | STATE(CLOSE_WAIT) | STATE(FIN_WAIT1) | \
		STATE(CLOSING) | STATE(LAST_ACK))

static int list(int fd, struct weir_socket_query query, weir_socket_take take, void *context) {
	static uint32_t sequence; // shared by all sockets

	return weir_socket_diag_list(
		fd, query, __atomic_add_fetch(&sequence, 2, __ATOMIC_RELAXED), take, context);
}

static void take_queue(void *context, const struct weir_socket *taken) {
	const struct inet_diag_msg *socket = taken->message;
	struct weir_listeners_queue *fullest = context;

	// This is length / limit > fullest->length / fullest->limit, without a division.
	if (fullest->sockets++ == 0 || (uint64_t)socket->idiag_rqueue * fullest->limit >
					       (uint64_t)fullest->length * socket->idiag_wqueue) {
		fullest->length = socket->idiag_rqueue;
		fullest->limit = socket->idiag_wqueue;
	}
}

static void take_connection(void *context, const struct weir_socket *socket) {
	struct weir_listeners_connections *connections = context;

	if (socket->message->idiag_state == TCP_SYN_RECV) {
		connections->half_open++;
	} else {
		connections->open++;
	}
}

static void take_count(void *context, const struct weir_socket *socket) {
	uint32_t *counts = context;

	counts[socket->port]++;
}

int weir_listeners_count(int fd, uint8_t protocol, const uint16_t *ports, uint32_t port_count,
	uint32_t *ret_counts) {
	// For a UDP socket that is not connected, the kernel reports the state TCP_CLOSE.
	const struct weir_socket_query query = {.protocol = protocol,
		.states = protocol == IPPROTO_UDP ? STATE(CLOSE) : STATE(LISTEN),
		.ports = ports,
		.port_count = port_count};

	memset(ret_counts, 0, port_count * sizeof(*ret_counts));
	return list(fd, query, take_count, ret_counts);
}

int weir_listeners_queue(
	int fd, const uint16_t *ports, uint32_t port_count, struct weir_listeners_queue *ret) {
	struct weir_listeners_queue queue = {0};
	const struct weir_socket_query query = {.protocol = IPPROTO_TCP,
		.states = STATE(LISTEN),
		.ports = ports,
		.port_count = port_count};
	int r = list(fd, query, take_queue, &queue);

	if (r == 0) {
		*ret = queue;
	}
	return r;
}

int weir_listeners_connections(int fd, const uint16_t *ports, uint32_t port_count,
	struct weir_listeners_connections *ret) {
	struct weir_listeners_connections connections = {0};
	const struct weir_socket_query query = {.protocol = IPPROTO_TCP,
		.states = NOT_OVER,
		.ports = ports,
		.port_count = port_count};
	int r = list(fd, query, take_connection, &connections);

	if (r == 0) {
		*ret = connections;
	}
	return r;
}
