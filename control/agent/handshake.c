// SPDX-License-Identifier: BSD-3-Clause
#include "handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "socket_diag.h"

// Time from a SYN+ACK to its first retransmission; doubles with each retransmission.
#define FIRST_TIMEOUT_MS 1000u
#define TIMEOUTS_MOST 8

// Returns whether a socket is a full socket, not a request socket. A request socket has none of the
// attributes that are checked here.
static bool is_full(const struct inet_diag_msg *socket, size_t bytes) {
	size_t length;

	return weir_socket_attribute(socket, bytes, INET_DIAG_INFO, &length) != NULL ||
	       weir_socket_attribute(socket, bytes, INET_DIAG_SHUTDOWN, &length) != NULL;
}

// Returns the minimum time since the last SYN+ACK. expires_ms: time left until the next
// retransmission. The retransmission timer of the kernel runs for 1, 2, 4, ... seconds.
static uint32_t settled_ms(uint32_t expires_ms) {
	uint32_t timeout_ms = FIRST_TIMEOUT_MS;

	for (int i = 0; i < TIMEOUTS_MOST && timeout_ms < expires_ms; i++) {
		timeout_ms *= 2;
	}
	return timeout_ms > expires_ms ? timeout_ms - expires_ms : 0;
}

// Callback of type weir_socket_found: derives the state of the flow from its socket. context: the
// struct weir_handshake in which the state is stored.
static void judge(void *context, const struct inet_diag_msg *socket, size_t bytes) {
	struct weir_handshake handshake = {.state = WEIR_HANDSHAKE_OVER};

	if (socket->idiag_state == TCP_LISTEN) {
		handshake.state = WEIR_HANDSHAKE_NONE;
	} else if (socket->idiag_state == TCP_SYN_RECV && !is_full(socket, bytes)) {
		handshake.state = WEIR_HANDSHAKE_BEGUN;
		handshake.settled_ms = settled_ms(socket->idiag_expires);
		memcpy(handshake.cookie, socket->id.idiag_cookie, sizeof(handshake.cookie));
	}
	*(struct weir_handshake *)context = handshake;
}

// Send a request about a flow and read the response. type: see weir_socket_diag_request. If the
// response is only an acknowledgement, *ret is unchanged.
static int query(struct weir_handshakes *handshakes, uint16_t type,
	const struct weir_handshake_flow *flow, const uint32_t cookie[2],
	struct weir_handshake *ret) {
	struct inet_diag_req_v2 request = {.sdiag_family = flow->family == 6 ? AF_INET6 : AF_INET,
		.sdiag_protocol = IPPROTO_TCP,
		.idiag_ext = 1u << (INET_DIAG_INFO - 1),
		.idiag_states = UINT32_MAX,
		.id = {.idiag_sport = htons(flow->vip_port),
			.idiag_dport = htons(flow->client_port),
			.idiag_cookie = {cookie[0], cookie[1]}}};
	size_t bytes = flow->family == 6 ? 16 : 4;

	memcpy(request.id.idiag_src, flow->vip, bytes);
	memcpy(request.id.idiag_dst, flow->client, bytes);
	return weir_socket_diag_request(
		handshakes->fd, type, &request, ++handshakes->sequence, judge, ret);
}

int weir_handshakes_open(struct weir_handshakes *ret) {
	int fd = weir_socket_diag_open();

	if (fd < 0) {
		return fd;
	}
	*ret = (struct weir_handshakes){.fd = fd};
	return 0;
}

void weir_handshakes_close(struct weir_handshakes *handshakes) {
	if (handshakes->fd >= 0) {
		close(handshakes->fd);
		handshakes->fd = -1;
	}
}

int weir_handshake_look(struct weir_handshakes *handshakes, const struct weir_handshake_flow *flow,
	struct weir_handshake *ret) {
	static const uint32_t any[2] = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE};
	struct weir_handshake found = {.state = WEIR_HANDSHAKE_NO_LISTENER};
	int r = query(handshakes, SOCK_DIAG_BY_FAMILY, flow, any, &found);

	if (r == 0 || r == -ENOENT) {
		*ret = found;
		r = 0;
	}
	return r;
}

int weir_handshake_remove(struct weir_handshakes *handshakes,
	const struct weir_handshake_flow *flow, struct weir_handshake *ret, bool *ret_removed) {
	struct weir_handshake before, after;
	int r = weir_handshake_look(handshakes, flow, &before), destroyed;

	if (r == 0 && (before.state != WEIR_HANDSHAKE_BEGUN ||
			      before.settled_ms < WEIR_HANDSHAKE_SETTLED_MS)) {
		*ret = before;
		*ret_removed = false;
		return 0;
	}
	if (r) {
		return r;
	}
	// The cookie limits the request to this socket. Without the cookie, the kernel would close
	// the listening socket if the handshake has just ended without a connection.
	destroyed = query(handshakes, SOCK_DESTROY, flow, before.cookie, &after);
	if (destroyed != 0 && destroyed != -ENOENT && destroyed != -ESTALE) {
		return destroyed;
	}
	// The kernel reports success even if the client's ACK arrived before the removal. Therefore
	// look up the flow again.
	r = weir_handshake_look(handshakes, flow, &after);
	if (r == 0) {
		*ret = after;
		*ret_removed = destroyed == 0 && after.state == WEIR_HANDSHAKE_NONE;
	}
	return r;
}
