// SPDX-License-Identifier: BSD-3-Clause
#include "handshake.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "listeners.h"

// Time from a SYN+ACK to its first retransmission; doubles with each retransmission.
#define FIRST_TIMEOUT_MS 1000u
#define TIMEOUTS_MOST 8

struct request {
	struct nlmsghdr header;
	struct inet_diag_req_v2 request;
};

union reply {
	struct nlmsghdr header;
	char bytes[4096];
};

static int send_request(int fd, uint16_t type, const struct weir_handshake_flow *flow,
	const uint32_t cookie[2], uint32_t sequence) {
	struct request message = {
		.header = {.nlmsg_len = sizeof(message),
			.nlmsg_type = type,
			.nlmsg_flags = NLM_F_REQUEST | NLM_F_ACK,
			.nlmsg_seq = sequence},
		.request = {.sdiag_family = flow->family == 6 ? AF_INET6 : AF_INET,
			.sdiag_protocol = IPPROTO_TCP,
			.idiag_ext = 1u << (INET_DIAG_INFO - 1),
			.idiag_states = UINT32_MAX,
			.id = {.idiag_sport = htons(flow->vip_port),
				.idiag_dport = htons(flow->client_port),
				.idiag_cookie = {cookie[0], cookie[1]}}},
	};
	const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	size_t bytes = flow->family == 6 ? 16 : 4;

	memcpy(message.request.id.idiag_src, flow->vip, bytes);
	memcpy(message.request.id.idiag_dst, flow->client, bytes);
	return sendto(fd, &message, sizeof(message), 0, (const struct sockaddr *)&kernel,
		       sizeof(kernel)) < 0
		       ? -errno
		       : 0;
}

// True if a socket is not a request socket. Request sockets have none of these attributes.
static bool is_full(const struct nlmsghdr *header) {
	const struct inet_diag_msg *socket = NLMSG_DATA(header);
	const struct rtattr *at = (const struct rtattr *)(socket + 1);
	uint32_t left = header->nlmsg_len - NLMSG_LENGTH(sizeof(*socket));

	for (; RTA_OK(at, left); at = RTA_NEXT(at, left)) {
		if (at->rta_type == INET_DIAG_INFO || at->rta_type == INET_DIAG_SHUTDOWN) {
			return true;
		}
	}
	return false;
}

// Computes the minimum time since the last SYN+ACK. expires_ms: time left until the next
// retransmission. The timer of the kernel runs for 1, 2, 4, ... seconds.
static uint32_t settled_ms(uint32_t expires_ms) {
	uint32_t timeout_ms = FIRST_TIMEOUT_MS;

	for (int i = 0; i < TIMEOUTS_MOST && timeout_ms < expires_ms; i++) {
		timeout_ms *= 2;
	}
	return timeout_ms > expires_ms ? timeout_ms - expires_ms : 0;
}

static struct weir_handshake judge(const struct nlmsghdr *header) {
	const struct inet_diag_msg *socket = NLMSG_DATA(header);
	struct weir_handshake handshake = {.state = WEIR_HANDSHAKE_OVER};

	if (socket->idiag_state == TCP_LISTEN) {
		handshake.state = WEIR_HANDSHAKE_NONE;
	} else if (socket->idiag_state == TCP_SYN_RECV && !is_full(header)) {
		handshake.state = WEIR_HANDSHAKE_BEGUN;
		handshake.settled_ms = settled_ms(socket->idiag_expires);
		memcpy(handshake.cookie, socket->id.idiag_cookie, sizeof(handshake.cookie));
	}
	return handshake;
}

// Read the kernel's messages for a request up to its acknowledgement. If the acknowledgement is the
// only message, *ret is unchanged. Returns 0, or the negative errno of the acknowledgement or of
// reading.
static int receive(int fd, uint32_t sequence, struct weir_handshake *ret) {
	for (;;) {
		union reply reply;
		ssize_t n = recv(fd, &reply, sizeof(reply), 0);
		const struct nlmsghdr *at = &reply.header;

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
				*ret = judge(at);
			}
		}
	}
}

// Send a request and read the response. ret: as for receive().
static int query(struct weir_handshakes *handshakes, uint16_t type,
	const struct weir_handshake_flow *flow, const uint32_t cookie[2],
	struct weir_handshake *ret) {
	int r = send_request(handshakes->fd, type, flow, cookie, ++handshakes->sequence);

	return r == 0 ? receive(handshakes->fd, handshakes->sequence, ret) : r;
}

int weir_handshakes_open(struct weir_handshakes *ret) {
	int fd = weir_listeners_open();

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
	// the listening socket if the handshake has just completed.
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
