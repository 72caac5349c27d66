// SPDX-License-Identifier: BSD-3-Clause
#include "shed_sockets.h"

#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_diag.h"

struct answer { // the kernel's answer to a request about one socket
	const struct weir_shed_connection *connection;
	uint32_t idle_ms; // minimum idle time
	bool idle; // the connection is established, and idle for at least idle_ms
};

int weir_shed_sockets_open(struct weir_shed_sockets *ret) {
	int fd = weir_socket_diag_open();

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

// --- listing ------------------------------------------------------------------------------

int weir_shed_sockets_look(struct weir_shed_sockets *sockets, const uint16_t *ports,
	uint32_t port_count, struct weir_shed_pick *pick, uint64_t now_ms) {
	const struct weir_socket_query query = {.protocol = IPPROTO_TCP,
		.states = 1u << TCP_ESTABLISHED,
		.attribute = INET_DIAG_INFO,
		.ports = ports,
		.port_count = port_count};
	int r;

	weir_shed_pick_begin(pick, now_ms);
	sockets->sequence += 2;
	r = weir_socket_diag_list(
		sockets->fd, query, sockets->sequence - 1, weir_shed_pick_take, pick);
	weir_shed_pick_end(pick, r == 0);
	return r;
}

// --- ending a connection ------------------------------------------------------------------

static void take_answer(void *context, const struct inet_diag_msg *message, size_t bytes) {
	struct answer *answer = context;
	size_t info_bytes = 0;
	const void *info = weir_socket_attribute(message, bytes, INET_DIAG_INFO, &info_bytes);
	uint32_t idle_ms;

	answer->idle = message->idiag_state == TCP_ESTABLISHED &&
		       memcmp(message->id.idiag_cookie, answer->connection->id.idiag_cookie,
			       sizeof(answer->connection->id.idiag_cookie)) == 0 &&
		       weir_shed_is_idle(message, info, info_bytes, answer->idle_ms, &idle_ms);
}

static int request(struct weir_shed_sockets *sockets, uint16_t type, struct answer *answer) {
	const struct inet_diag_req_v2 request = {.sdiag_family = answer->connection->family,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 1u << (INET_DIAG_INFO - 1),
		.idiag_states = 1u << TCP_ESTABLISHED,
		// includes the cookie, so that no other socket matches
		.id = answer->connection->id};

	return weir_socket_diag_request(
		sockets->fd, type, &request, ++sockets->sequence, take_answer, answer);
}

int weir_shed_sockets_end(struct weir_shed_sockets *sockets,
	const struct weir_shed_connection *connection, uint32_t idle_ms, bool *ret_ended) {
	struct answer answer = {.connection = connection, .idle_ms = idle_ms};
	int r = request(sockets, SOCK_DIAG_BY_FAMILY, &answer);

	*ret_ended = false;
	if (r == 0 && answer.idle) {
		r = request(sockets, SOCK_DESTROY, &answer);
		*ret_ended = r == 0;
	}
	return r == -ENOENT || r == -ESTALE ? 0 : r; // the connection has closed by itself
}
